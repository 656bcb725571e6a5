"""Avro data files, and the Avro containers and schemas that manifests also use."""

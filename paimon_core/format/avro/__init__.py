"""Avro data files, and the Avro containers and schemas that manifests share with them."""

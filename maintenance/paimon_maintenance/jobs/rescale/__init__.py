"""Another number of buckets for a table and its partitions (Paimon's procedure `rescale`)."""

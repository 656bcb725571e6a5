"""The aggregate functions of the engines `aggregation` and `partial-update`."""

"""Like rows brought together (Paimon's procedure `compact` with `order_strategy`)."""

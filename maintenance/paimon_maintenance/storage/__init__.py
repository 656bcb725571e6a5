"""A table's storage as a run uses it: the lease, the ledger, the clock, requests in bulk."""

"""The storage of a table during a run: lease, change ledger, clock check, bulk requests."""

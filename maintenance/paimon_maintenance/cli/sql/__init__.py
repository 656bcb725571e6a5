"""`caretaker sql`, and the procedures that `CALL` runs."""

"""Tags: made by hand and by schedule, deleted, renamed, replaced, expired."""

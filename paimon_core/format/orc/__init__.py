"""ORC data files: read with pyarrow after a check of the footer, written column by column."""

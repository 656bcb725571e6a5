"""The files of a bucket as a tree: its levels, what a compaction picks, and the merge of its runs."""

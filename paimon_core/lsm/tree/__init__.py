"""The files of a bucket as a tree: levels, compaction picks, and the merge of its runs."""

"""Chain tables: complete partitions in one branch, changes in another (Java: `table/Chain*`)."""

"""The engine that runs work on Spark."""

"""Consumers: expired when they are dead, moved, cleared."""

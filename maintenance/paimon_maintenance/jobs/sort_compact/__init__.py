"""Sorts rows, so that similar rows are in the same files (Paimon's procedure `compact` with
`order_strategy`).
"""

"""Pinned snapshots kept in the folder of a node, within a budget: what `faas node-cache run` does."""

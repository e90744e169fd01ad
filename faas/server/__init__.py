"""The HTTP side of one instance."""

"""Ready-made handlers, written with faas's public API alone."""

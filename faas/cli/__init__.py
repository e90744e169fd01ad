"""The command line: the composition root, one file a command."""

"""One measurement a file. Each has `measure(bench)`, which returns rows; what the demo shows too is apart from it."""

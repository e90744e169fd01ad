"""What others would write, or use, for the same work. Each is a server: `python -m benchmarks.peers.NAME PORT`."""

"""What this framework costs and saves, measured side by side with the plain way and with peers. See README.md."""

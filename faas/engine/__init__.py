"""What gives each call its one outcome: queue, batching policy, executor, model thread."""

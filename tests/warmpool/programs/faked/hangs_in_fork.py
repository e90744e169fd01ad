"""A torch whose first parallel operation in a forked worker waits for threads that were not copied."""

import threading

import torch

torch.ones = lambda count: threading.Event().wait()

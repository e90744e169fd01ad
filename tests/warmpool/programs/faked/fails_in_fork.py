"""A torch whose first parallel operation in a forked worker is refused."""

import torch


def ones(count: int) -> None:
    raise RuntimeError("no fork here")


torch.ones = ones

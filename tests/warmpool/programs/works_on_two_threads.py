"""FK-02 as it hurts: the zygote would have an OpenMP pool whose threads no worker has."""

import torch

torch.set_num_threads(2)
torch.ones(64_000, dtype=torch.float16).float().add_(1)

"""FK-02: the warm-up that authors do when their module is imported."""

import numpy
import torch

torch.ones(64_000, dtype=torch.float16).float().add_(1)
torch.ones(512, 512) @ torch.ones(512, 512)
numpy.ones((512, 512)) @ numpy.ones((512, 512))

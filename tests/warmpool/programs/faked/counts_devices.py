import torch

torch.cuda.device_count()

import torch

torch.cuda.init()

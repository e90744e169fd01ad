"""A decoder of Llama's shape, in torch alone, and its sizes."""

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812  # as everybody calls it


@dataclass(frozen=True)
class Shape:
    """The sizes of a decoder. Every head is `hidden / num_heads` wide."""

    hidden: int
    feed_forward: int
    num_layers: int
    num_heads: int
    num_key_heads: int
    vocabulary: int


FULL = Shape(hidden=1536, feed_forward=4096, num_layers=17, num_heads=12, num_key_heads=4, vocabulary=32_000)
QUICK = Shape(hidden=512, feed_forward=1408, num_layers=17, num_heads=8, num_key_heads=4, vocabulary=8_000)
"""2.1 GB and 0.2 GB as float32, 156 tensors each."""

PROMPT = tuple(range(5, 21))


class Attention(nn.Module):  # type: ignore[misc]  # torch is not looked into
    """Causal attention with fewer heads for keys and values than for queries, and rotary positions."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.width = shape.hidden // shape.num_heads
        key_width = shape.num_key_heads * self.width
        self.q_proj = nn.Linear(shape.hidden, shape.hidden, bias=False)
        self.k_proj = nn.Linear(shape.hidden, key_width, bias=False)
        self.v_proj = nn.Linear(shape.hidden, key_width, bias=False)
        self.o_proj = nn.Linear(shape.hidden, shape.hidden, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x and the result: (positions, hidden)."""
        q, k, v = (
            part(x).view(len(x), -1, self.width).transpose(0, 1) for part in (self.q_proj, self.k_proj, self.v_proj)
        )
        attended = F.scaled_dot_product_attention(rotated(q), rotated(k), v, is_causal=True, enable_gqa=True)
        mixed: torch.Tensor = self.o_proj(attended.transpose(0, 1).flatten(1))
        return mixed


def rotated(x: torch.Tensor) -> torch.Tensor:
    """x and the result: (heads, positions, width); pairs of elements turned by an angle that grows with position."""
    half = x.shape[-1] // 2
    speed = 10_000 ** -(torch.arange(half) / half)
    angle = torch.arange(x.shape[-2])[:, None] * speed
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    a, b = x[..., :half], x[..., half:]
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


class FeedForward(nn.Module):  # type: ignore[misc]  # torch is not looked into
    """The gated half of a layer."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(shape.hidden, shape.feed_forward, bias=False)
        self.up_proj = nn.Linear(shape.hidden, shape.feed_forward, bias=False)
        self.down_proj = nn.Linear(shape.feed_forward, shape.hidden, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x and the result: (positions, hidden)."""
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):  # type: ignore[misc]  # torch is not looked into
    """One layer: attention, then feed-forward, each added to what came in."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.input_layernorm = nn.RMSNorm(shape.hidden)
        self.self_attn = Attention(shape)
        self.post_attention_layernorm = nn.RMSNorm(shape.hidden)
        self.mlp = FeedForward(shape)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x and the result: (positions, hidden)."""
        x = x + self.self_attn(self.input_layernorm(x))
        return x + self.mlp(self.post_attention_layernorm(x))


class Llama(nn.Module):  # type: ignore[misc]  # torch is not looked into
    """The whole decoder; calling it gives the logits of the token after the last."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(shape.vocabulary, shape.hidden)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.num_layers))
        self.norm = nn.RMSNorm(shape.hidden)
        self.lm_head = nn.Linear(shape.hidden, shape.vocabulary, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """tokens: (positions,), whole numbers. Returns (vocabulary,)."""
        x = self.embed_tokens(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.lm_head(self.norm(x[-1]))


def built(shape: Shape, device: str = "cpu") -> Llama:
    """A decoder whose weights are not initialised; "meta" gives it none at all."""
    with torch.device("meta"):
        model = Llama(shape)
    model.eval().requires_grad_(False)
    if device != "meta":
        model.to_empty(device=device)
    return model


def initialised(shape: Shape) -> Llama:
    """A decoder with weights."""
    model = built(shape)
    torch.manual_seed(0)
    for name, weights in model.named_parameters():
        if name.endswith("norm.weight"):
            weights.fill_(1)
        else:
            weights.uniform_(-0.03, 0.03)
    return model


def first_inference(model: Llama) -> list[float]:
    """The first logits for `PROMPT`."""
    with torch.inference_mode():
        logits: list[float] = model(torch.tensor(PROMPT))[:8].tolist()
    return logits

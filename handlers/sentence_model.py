"""The module of `handlers.embed`: from tokens to a vector of length 1 for each sentence. Imports torch."""

from __future__ import annotations

from typing import Any

import torch


class SentenceModel(torch.nn.Module):  # type: ignore[misc]  # torch is not looked into
    """An encoder, and the mean of its last hidden states over the tokens that are not padding, normalised."""

    def __init__(self, encoder: torch.nn.Module) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, ids: Any, mask: Any) -> torch.Tensor:
        """Return a vector for each row of token numbers; `mask` is 1 for tokens, 0 for padding. Takes arrays too."""
        ids, mask = torch.as_tensor(ids), torch.as_tensor(mask)
        hidden = self.encoder(ids, attention_mask=mask).last_hidden_state
        weights = mask.unsqueeze(-1)
        mean = (hidden * weights).sum(1) / weights.sum(1)
        return torch.nn.functional.normalize(mean, dim=-1)

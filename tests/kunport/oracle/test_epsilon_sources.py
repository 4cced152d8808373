"""Who says the epsilon of a norm: its class, torch's function, or the code that calls it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from kunport.oracle.norms import epsilon_sources, find_norms
from torch import nn
from torch.nn import functional


class Own(nn.Module):
    def __init__(self, eps: float = 1e-5) -> None:
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(8)), eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.layer_norm(x, (8,), self.weight, None, self.eps)


class Bare(nn.Module):
    def __init__(self, *written: Any, **named: Any) -> None:
        super().__init__()
        self.weight, self.written, self.named = nn.Parameter(torch.ones(8)), written, named

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.layer_norm(x, (8,), self.weight, *self.written, **self.named)


@pytest.mark.parametrize(
    ("norm", "source"),
    [
        (Own, "class default"),
        (lambda: Own(1e-5), "literal"),
        (lambda: nn.LayerNorm(8), "class default"),
        (Bare, "torch default"),
        (lambda: Bare(None, 1e-5), "literal"),
        (lambda: Bare(eps=1e-5), "literal"),
    ],
)
def test_the_source_of_an_epsilon(norm: Any, source: str) -> None:
    shapes = {"0": torch.Size((8,))}
    forms = find_norms(nn.Sequential(norm()), shapes)
    assert epsilon_sources(lambda changes: nn.Sequential(norm()), SimpleNamespace(), forms, shapes) == {"0": source}

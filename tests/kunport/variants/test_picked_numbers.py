"""A number that a field of the configuration picks from others depends on the field, wherever it is picked."""

from __future__ import annotations

from pathlib import Path

import pytest
from kunport.analysis import analyze
from kunport.variants import Fact, read_facts

SOURCE = """
from dataclasses import dataclass
import torch
from torch import nn


@dataclass
class Config:
    vocab: int = 60
    width: int = 32
    depth: int = 2
    kind: int = 2
    flag: bool = True


class Norm(nn.Module):
    def __init__(self, width, eps):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(width)), eps

    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps))


class Plain(nn.Module):
    def __init__(self, width, eps):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.zeros(width)), eps

    def forward(self, x):
        return (1 + self.weight) * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps))


def first_of(config):
    if config.flag:
        return 1e-3
    return 1e-4


def later_of(config):
    if not config.flag:
        return 1e-4
    return 1e-3


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        cls = Norm
        # here
        self.norm = cls(config.width, eps)
        self.up, self.down = nn.Linear(config.width, 64), nn.Linear(64, config.width)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(self.norm(x))))


class Model(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        self.tokens = nn.Embedding(config.vocab, config.width)
        self.blocks = nn.ModuleList([Block(config) for _ in range(config.depth)])
        self.head = nn.Linear(config.width, config.vocab, bias=False)

    def forward(self, tokens):
        x = self.tokens(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)
"""
PICKED = {
    "a ternary": "eps = 1e-3 if config.flag else 1e-4",
    "a ternary of a test before": "small = config.flag is False; eps = 1e-4 if small else 1e-3",
    "and, or": "eps = (not config.flag and 1e-4) or 1e-3",
    "a dictionary": "eps = {True: 1e-3, False: 1e-4}[config.flag]",
    "a default": "eps = {False: 1e-4}.get(config.flag, 1e-3)",
    "a pair": "eps = (1e-4, 1e-3)[config.flag]",
    "a branch": "if config.flag: eps = 1e-3\n        else: eps = 1e-4",
    "no branch": "eps = 1e-3\n        if not config.flag: eps = 1e-4",
    "an attribute and no branch": "self.e = 1e-3\n        if not config.flag: self.e = 1e-4\n        eps = self.e",
    "a return": "eps = first_of(config)",
    "a return that is reached": "eps = later_of(config)",
    "a pattern": "match config.flag:\n            case True: eps = 1e-3\n            case _: eps = 1e-4",
    "a sum": "eps = 9e-4 + (1e-4 if config.flag else 0.0)",
    "a loop": "for eps in [each for each in (1e-4, 1e-3) if (each > 5e-4) == config.flag]: pass",
}


@pytest.mark.parametrize("way", PICKED)
def test_a_picked_number_depends(way: str, tmp_path: Path) -> None:
    epsilon = _facts(PICKED[way], tmp_path)["norm[norm].epsilon"]
    assert (epsilon.value, epsilon.fields) == (pytest.approx(1e-3), ("flag",))


def test_the_source_of_a_picked_epsilon_depends(tmp_path: Path) -> None:
    source = _facts("eps = 1e-3 if config.flag else config.kind * 1e-4", tmp_path)["norm[norm].epsilon_source"]
    assert (source.value, source.fields) == ("literal", ("flag",))


def test_a_number_beside_a_choice_is_proved(tmp_path: Path) -> None:
    facts = _facts("eps = 1e-3\n        other = 1e-4 if config.flag else 1e-5", tmp_path)
    assert facts["norm[norm].epsilon"].status == "proved"


@pytest.mark.parametrize("picked", ["cls = Norm if config.kind == 2 else Plain", "if config.kind != 2: cls = Plain"])
def test_what_a_picked_class_makes_depends(picked: str, tmp_path: Path) -> None:
    facts = _facts(f"eps = 1e-3\n        {picked}", tmp_path)
    assert (facts["norm[norm].offset"].value, facts["norm[norm].offset"].fields) == (0.0, ("kind",))


def _facts(statement: str, folder: Path) -> dict[str, Fact]:
    (folder / "model.py").write_text(SOURCE.replace("# here", statement))
    return dict(read_facts(analyze(folder / "model.py").graph).layer(0))

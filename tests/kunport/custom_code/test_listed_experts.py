"""Experts that are modules of a list: what is summed is found out by evaluation, and nothing else is called experts."""

from pathlib import Path
from typing import Any

import pytest
from kunport.analysis import analyze
from kunport.variants import read_facts

SOURCE = """
import torch
import torch.nn.functional as F
from torch import nn


class Expert(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.gate, self.up, self.down = nn.Linear(c.width, 6), nn.Linear(c.width, 6), nn.Linear(6, c.width)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Mixture(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c, self.router = c, nn.Linear(c.width, c.experts, bias=False)
        self.experts = nn.ModuleList([Expert(c) for _ in range(c.experts)])

    def forward(self, hidden):
        x = hidden.reshape(-1, hidden.shape[-1])
        weight, choice = self.router(x).softmax(-1).topk(self.c.chosen, dim=-1)
        total = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
BODY
        return total.view_as(hidden)


class Layer(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.norm, self.mlp = nn.LayerNorm(c.width), Mixture(c)

    def forward(self, x):
        return x + self.mlp(self.norm(x))


class Model(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.embed, self.head = nn.Embedding(16, c.width), nn.Linear(c.width, 16)
        self.layers = nn.ModuleList([Layer(c) for _ in range(2)])

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)
"""

SUMS = {
    "places": """
            row, slot = torch.where(choice == number)
            total.index_add_(0, row, expert(x[row]) * weight[row, slot, None])
""",
    "skipped": """
            mine = choice == number
            if not mine.any():
                continue
            row, slot = mine.nonzero(as_tuple=True)
            total = total.index_add(0, row, weight[row, slot].unsqueeze(-1) * expert(x[row]))
""",
    "every token": """
            share = (weight * (choice == number)).sum(-1, keepdim=True)
            total = total + expert(x) * share
""",
}

NO_SUMS = {
    "another expert": SUMS["places"].replace("== number", "== (number + 1) % len(self.experts)"),
    "weighted twice": SUMS["every token"].replace("* share", "* share * share"),
    "the first choice alone": SUMS["every token"].replace(
        "(weight * (choice == number))", "(weight * (choice == number))[:, :1]"
    ),
    "overwritten": SUMS["places"]
    .replace("total.index_add_(0, row, ", "total[row] = (")
    .replace(" * weight[row, slot, None])", " * weight[row, slot, None])"),
}


def _facts(tmp_path: Path, body: str) -> Any:
    path = tmp_path / "mixture.py"
    path.write_text(SOURCE.replace("BODY", body.strip("\n")))
    return read_facts(analyze(path, config={"width": 8, "experts": 5, "chosen": 2}).graph).layer(1)


@pytest.mark.parametrize("name", SUMS)
def test_a_sum_over_the_chosen_experts_is_read(tmp_path: Path, name: str) -> None:
    facts = _facts(tmp_path, SUMS[name])
    assert {key: facts[key].value for key in ("router.scoring", "router.experts", "router.top_k")} == {
        "router.scoring": "softmax",
        "router.experts": 5,
        "router.top_k": 2,
    }
    assert (facts["router.renormalize"].value, facts["router.groups"].value) == (False, None)
    assert (facts["experts.activation"].value, facts["experts.bias"].value) == ("silu", True)
    assert facts["experts.shared"].value == 0


@pytest.mark.parametrize("name", NO_SUMS)
def test_another_sum_is_not(tmp_path: Path, name: str) -> None:
    assert all(fact.reason for key, fact in _facts(tmp_path, NO_SUMS[name]).items() if key.startswith("router."))

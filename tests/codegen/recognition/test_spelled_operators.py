"""Softmaxes and L2 norms that are spelled out, in a model whose source is read."""

from pathlib import Path

import pytest
import torch
from kunport.analysis import analyze
from kunport_codegen.graph import Graph
from kunport_codegen.recognition import recognize
from kunport_codegen.recognition.norms import STEP

SOURCE = """
import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.embed, self.qkv = nn.Embedding(16, 16), nn.Linear(16, 48)
        self.out, self.head = nn.Linear(16, 16), nn.Linear(16, 16)

    def forward(self, ids):
        x = F.rms_norm(self.embed(ids), (16,))
        q, k, v = (each.unflatten(-1, (2, 8)).transpose(1, 2) for each in self.qkv(x).chunk(3, dim=-1))
        q = LENGTH
        scores = q @ k.transpose(2, 3)
        seen = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()
        scores = scores.masked_fill(~seen, float("-inf"))
        scores = WEIGHTS
        return self.head(self.out((scores @ v).transpose(1, 2).flatten(2)))
"""
LENGTH = "q / q.norm(dim=-1, keepdim=True).clamp_min(1e-6)"
WEIGHTS = "(lambda e: e / e.sum(-1, keepdim=True))(torch.exp(scores - scores.amax(-1, keepdim=True)))"


def _graph(folder: Path, length: str = LENGTH, weights: str = WEIGHTS) -> Graph:
    path = folder / "spelled.py"
    path.write_text(SOURCE.replace("LENGTH", length).replace("WEIGHTS", weights))
    return analyze(path, config={}).graph


def test_a_softmax_that_is_spelled_out(tmp_path: Path) -> None:
    (attention,) = recognize(_graph(tmp_path)).attentions
    assert (attention.mask, attention.heads, attention.scale) == ("causal", 2, 1.0)


@pytest.mark.parametrize(
    "weights",
    [
        "(lambda e: e / e.sum(-2, keepdim=True))(torch.exp(scores - scores.amax(-1, keepdim=True)))",
        "(lambda e: e / (e.sum(-1, keepdim=True) + 1))(torch.exp(scores - scores.amax(-1, keepdim=True)))",
        "(lambda e: e / e.square().sum(-1, keepdim=True))(torch.exp(scores))",
    ],
)
def test_another_quotient_is_no_softmax(tmp_path: Path, weights: str) -> None:
    assert recognize(_graph(tmp_path, weights=weights)).attentions == []


def test_a_bounded_length_is_an_l2_norm(tmp_path: Path) -> None:
    norms = recognize(_graph(tmp_path)).norms
    assert [(norm.kind, norm.epsilon) for norm in norms] == [("rms", STEP), ("l2", 1e-6)]


@pytest.mark.parametrize(
    "length", ["q / q.norm(p=1, dim=-1, keepdim=True).clamp_min(1e-6)", "k / q.norm(dim=-1, keepdim=True).clamp_min(1)"]
)
def test_another_length_is_none(tmp_path: Path, length: str) -> None:
    assert [norm.kind for norm in recognize(_graph(tmp_path, length=length)).norms] == ["rms"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_torch_takes_the_step_of_float32_where_no_epsilon_is_given(dtype: torch.dtype) -> None:
    tensor = (1e-3 * torch.arange(1, 9)).to(dtype)
    wanted = tensor.float() * torch.rsqrt(tensor.float().square().mean() + STEP)
    torch.testing.assert_close(torch.nn.functional.rms_norm(tensor, (8,)), wanted.to(dtype))


TURNED = """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.embed, self.qkv = nn.Embedding(16, 16), nn.Linear(16, 48)
        self.out, self.head = nn.Linear(16, 16), nn.Linear(16, 16)

    def turn(self, x):
        n = x.shape[-2]
        slow = FREQUENCIES
        angles = torch.outer(torch.arange(n), slow)
        cos, sin = angles.cos(), torch.outer(torch.arange(n), slow).sin()
        a, b = x.chunk(2, dim=-1)
        return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)

    def forward(self, ids):
        q, k, v = (each.unflatten(-1, (2, 8)).transpose(1, 2) for each in self.qkv(self.embed(ids)).chunk(3, dim=-1))
        q, k = self.turn(q), self.turn(k)
        x = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.head(self.out(x.transpose(1, 2).flatten(2)))
"""


def _tables(folder: Path, frequencies: str) -> list[tuple[float, ...]]:
    path = folder / "turned.py"
    path.write_text(TURNED.replace("FREQUENCIES", frequencies))
    return [rope.table.own for rope in recognize(analyze(path, config={}).graph).ropes]


def test_a_rotation_by_frequencies_of_its_own(tmp_path: Path) -> None:
    tables = _tables(tmp_path, "torch.linspace(1, 0.25, 4)")
    assert tables == [pytest.approx((1.0, 0.75, 0.5, 0.25))] * 2


def test_frequencies_that_change_with_the_length_are_none(tmp_path: Path) -> None:
    assert _tables(tmp_path, "torch.linspace(1, 0.25, 4) / (1 + n)") == []

"""Where elements of projections go, followed through the source's own moves."""

import json

import pytest
from kunport.variants import read_facts

import kunport

SOURCE = """import torch
import torch.nn.functional as F
from torch import nn


class Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.q = nn.Linear(32, 32, bias=False)
        self.kv = nn.Linear(32, 64, bias=False)
        self.o = nn.Linear(32, 32, bias=False)

    def forward(self, x):
        b, s, _ = x.shape
        q = self.q(x).view(b, s, 4, 8).transpose(1, 2)
        MOVES
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o(mixed.transpose(1, 2).reshape(b, s, 32))


class Layer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.norm = nn.LayerNorm(32)
        self.attention = Attention(config)

    def forward(self, x):
        return x + self.attention(self.norm(x))


class CaseForCausalLM(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.embed = nn.Embedding(64, 32)
        self.layers = nn.ModuleList([Layer(config) for _ in range(4)])
        self.head = nn.Linear(32, 64, bias=False)

    def forward(self, input_ids):
        x = self.embed(input_ids)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)
"""
CONFIG = {
    "architectures": ["CaseForCausalLM"],
    "model_type": "case",
    "auto_map": {"AutoModelForCausalLM": "modeling_case.CaseForCausalLM"},
}
SPLIT = "k, v = (each.view(b, s, 4, 8).transpose(1, 2) for each in self.kv(x).split(32, dim=-1))"
BUFFER = """both = torch.zeros(b, s, 4, 16, dtype=x.dtype)
        both[..., :8], both[..., 8:] = (each.view(b, s, 4, 8) for each in self.kv(x).split(32, dim=-1))
        k, v = both[..., :8].transpose(1, 2), both[..., 8:].transpose(1, 2)"""
MIXED = "k = self.kv(x)[..., :32].view(b, s, 4, 8).transpose(1, 2)\n        v = k"


@pytest.mark.parametrize(("moves", "packing"), [(SPLIT, "kv"), (BUFFER, "kv"), (MIXED, None)])
def test_rows_are_followed_through_views_and_buffers(tmp_path, moves, packing):
    (tmp_path / "modeling_case.py").write_text(SOURCE.replace("MOVES", moves))
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    (kind,) = read_facts(kunport.analyze(tmp_path).graph).kinds
    assert kind.layers == (0, 1, 2, 3)
    assert kind.facts["attention.packing"].value == packing

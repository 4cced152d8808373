"""Attention by torch's one operator is read like attention that is spelled out."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from kunport.analysis import analyze
from kunport.variants import read_facts
from kunport.variants.fact import OPAQUE

SOURCE = """
from dataclasses import dataclass
import torch
from torch import nn
from torch.nn import functional as F


@dataclass
class Config:
    vocab: int = 60
    width: int = 32
    heads: int = 4
    kv_heads: int = KV_HEADS


class Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.heads, self.kv_heads, self.size = config.heads, config.kv_heads, config.width // config.heads
        self.q = nn.Linear(config.width, config.width)
        self.kv = nn.Linear(config.width, 2 * config.kv_heads * self.size)
        self.o = nn.Linear(config.width, config.width)

    def forward(self, x):
        b, t, _ = x.shape
        q = self.q(x).view(b, t, self.heads, self.size).transpose(1, 2)
        k, v = (each.view(b, t, self.kv_heads, self.size).transpose(1, 2) for each in self.kv(x).chunk(2, dim=-1))
        seen = torch.ones(t, t, dtype=torch.bool).tril()
        y = F.scaled_dot_product_attention(q, k, v, OPTIONS)
        return self.o(y.transpose(1, 2).reshape(b, t, -1))


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.norm, self.attention = nn.LayerNorm(config.width), Attention(config)

    def forward(self, x):
        return x + self.attention(self.norm(x))


class Model(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        self.tokens = nn.Embedding(config.vocab, config.width)
        self.blocks = nn.ModuleList([Block(config) for _ in range(2)])
        self.head = nn.Linear(config.width, config.vocab)

    def forward(self, tokens):
        x = self.tokens(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)
"""
USUAL = {"kind": "softmax", "heads": 4, "kv_heads": 4, "head_dim": 8, "window": None, "packing": "kv"}
# Options of the operator -> heads of keys and values, and what is said.
OPTIONS = {
    "is_causal=True": (4, USUAL | {"scale": 8**-0.5}),
    "None, 0.0, True, scale=0.25": (4, USUAL | {"scale": 0.25}),
    "is_causal=True, enable_gqa=True": (2, USUAL | {"kv_heads": 2}),
    "attn_mask=seen": (4, USUAL),
    "attn_mask=seen & ~seen.tril(-3)": (4, USUAL | {"window": 3}),
    "attn_mask=torch.zeros(t, t).masked_fill(~seen, float('-inf'))": (4, USUAL),
    "attn_mask=seen.tril(-5)": (4, None),
    "attn_mask=(x[0] @ x[0].T)": (4, None),
}


@cache
def attention(options: str, kv_heads: int):
    source = SOURCE.replace("OPTIONS", options).replace("KV_HEADS", str(kv_heads))
    with TemporaryDirectory() as folder:
        (Path(folder) / "model.py").write_text(source)
        return read_facts(analyze(Path(folder) / "model.py").graph).layer(1)


@pytest.mark.parametrize("options", OPTIONS)
def test_options_of_the_operator(options):
    kv_heads, expected = OPTIONS[options]
    facts = attention(options, kv_heads)
    if expected is None:
        assert facts["attention.window"].status == OPAQUE
        assert facts["attention.kind"].status == OPAQUE
    else:
        assert {key: facts[f"attention.{key}"].value for key in expected} == expected

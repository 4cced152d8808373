"""A turn of a loop over groups of modules is a layer, however the group is held and the loop is written."""

from pathlib import Path

import pytest
from kunport.analysis import analyze
from kunport.variants import read_facts

SOURCE = """
import torch.nn as nn
import torch.nn.functional as F


class Mixer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = (t.view(b, n, 2, d // 2).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(b, n, d))


class Model(nn.Module):
    def __init__(self, vocab=16, dim=8, depth=3):
        super().__init__()
        self.embed, self.head = nn.Embedding(vocab, dim), nn.Linear(dim, vocab)
        self.layers = nn.ModuleList()
        for _ in range(depth):
            parts = nn.LayerNorm(dim), Mixer(dim), nn.LayerNorm(dim), nn.Sequential(nn.Linear(dim, 16), nn.GELU(), nn.Linear(16, dim))
            self.layers.append(GROUP)

    def forward(self, ids):
        x = self.embed(ids)
        LOOP
            x = x + mix(norm(x))
            x += feed(second(x))
        return self.head(x)
"""
LIST, NAMED = "nn.ModuleList(parts)", "nn.ModuleDict(dict(zip('abcd', parts)))"
WAYS = {
    "a list": (LIST, "for norm, mix, second, feed in self.layers:"),
    "a list that is counted": (LIST, "for number, (norm, mix, second, feed) in enumerate(self.layers):"),
    "a dictionary": (NAMED, "for held in self.layers:\n            norm, mix, second, feed = held.values()"),
    "a dictionary by name": (
        NAMED,
        "for held in self.layers:\n            norm, mix, second, feed = (held[each] for each in 'abcd')",
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_group_of_modules_is_a_layer(tmp_path: Path, way: str) -> None:
    group, loop = WAYS[way]
    path = tmp_path / "model.py"
    path.write_text(SOURCE.replace("GROUP", group).replace("LOOP", loop))
    facts = read_facts(analyze(path).graph)
    assert facts.model["layers"].value == 3
    (kind,) = facts.kinds
    wanted = {"attention.kind": "softmax", "mlp.activation": "gelu", "residual.order": "r N A + r N M +"}
    assert {key: kind.facts[key].value for key in wanted} == wanted

"""Patterns of einops give what einops gives."""

import einops
import pytest
import torch
from kunport.analysis import analyze
from kunport.validation.executor import execute

EXPRESSIONS = (
    "rearrange(x, 'b n d -> n b d')",
    "rearrange(x, 'b n (h d) -> b h n d', h=3)",
    "rearrange(x, 'b n (h d) -> (b h) n d', d=4)",
    "rearrange(x, '... (two d) -> two ... d', two=2)",
    "rearrange(x, 'b ... d -> b (...) d')",
    "rearrange(x, 'b n (k g d) -> b (g k) (n d)', k=2, g=3)",
    "rearrange(x, 'b n d -> b () n 1 d')",
    "rearrange([x, x + 1], 't b n d -> b n (t d)')",
    "rearrange(x[:, :, None], 'b n 1 d -> b (n d)')",
    "repeat(x, 'b n d -> b n (d r)', r=2)",
    "repeat(x, 'b n d -> (2 b) n d')",
    "repeat(x, 'b n d -> b h n d', h=3)",
    "reduce(x, 'b n (h d) -> b n h', 'mean', h=3)",
    "reduce(x, 'b n d -> b 1 d', 'max')",
    "reduce(x, 'b n d -> ', 'sum')",
    "einsum(x, x, 'b i width, b j width -> b i j')",
    "einsum(x, 'batch n d -> batch d')",
    "rearrange(x, 'b n (h d) -> b h n d', **parse_shape(x[0, :3], 'h _'))",
)


SOURCE = """
import torch.nn as nn
from einops import einsum, parse_shape, rearrange, reduce, repeat

class Net(nn.Module):
    def __init__(self, vocab=5):
        super().__init__()
        self.emb = nn.Embedding(vocab, 12)

    def forward(self, ids):
        x = self.emb(ids)
        return {expression}
"""


def read(expression, folder):
    (folder / "net.py").write_text(SOURCE.format(expression=expression))
    return analyze(folder / "net.py").graph


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_patterns_are_read(expression, tmp_path):
    graph = read(expression, tmp_path)
    assert not graph.unknowns()
    weight, ids = torch.randn(5, 12), torch.randint(5, (2, 7))
    names = {name: getattr(einops, name) for name in ("einsum", "parse_shape", "rearrange", "reduce", "repeat")}
    expected = eval(expression, {**names, "x": weight[ids]})  # an expression of the table above
    assert torch.allclose(execute(graph, {"emb.weight": weight}, ids), expected)


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("rearrange(x, 'b n (h d) -> b h n d')", "leaves the sizes of h and d open"),
        ("rearrange(x, 'b d -> d b')", "a pattern of 2 dimensions for a tensor of 3"),
        ("rearrange(x, 'b n d -> b n')", "a pattern that drops axes"),
        ("reduce(x, 'b n d -> b n', lambda t, axes: t.sum(axes))", "a pattern that drops axes"),
    ],
)
def test_patterns_that_do_not_fit_are_unknown(expression, reason, tmp_path):
    assert reason in " ".join(str(node.args[0]) for node in read(expression, tmp_path).unknowns())

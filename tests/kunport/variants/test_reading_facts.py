"""What is said of code in which something has no name: never nothing."""

import json
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from kunport.analysis import analyze
from kunport.variants import ModelFacts, read_facts
from kunport.variants.fact import DEPENDS, OPAQUE, PROVED

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
    depth: int = 2
    eps: float = 1e-5


class Norm(nn.Module):
    def __init__(self, width, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x):
        return NORM


class Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.heads, self.size = config.heads, config.width // config.heads
        self.q = nn.Linear(config.width, config.width, bias=False)
        self.k = nn.Linear(config.width, config.width, bias=False)
        self.v = nn.Linear(config.width, config.width, bias=False)
        self.o = nn.Linear(config.width, config.width, bias=False)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = (each(x).view(b, t, self.heads, self.size).transpose(1, 2) for each in (self.q, self.k, self.v))
        mask = torch.full((t, t), float("-inf"), device=x.device).triu(1)
        scores = q @ k.transpose(-2, -1) * self.size**-0.5
        weights = SOFTMAX
        return self.o((weights @ v).transpose(1, 2).reshape(b, t, -1))


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.first, self.second = NORMS
        self.attention = Attention(config)
        self.up, self.down = nn.Linear(config.width, 64), nn.Linear(64, config.width)

    def forward(self, x):
        x = x + self.attention(self.first(x))
        return x + self.down(ACTIVATION)


class Model(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        self.tokens = nn.Embedding(config.vocab, config.width)
        self.positions = nn.Embedding(128, config.width)
        self.blocks = LAYERS
        self.norm = Norm(config.width)
        self.head = nn.Linear(config.width, config.vocab, bias=False)

    def forward(self, tokens):
        x = EMBEDDED
        for block in BLOCKS:
            x = block(x)
        return LOGITS
"""
USUAL = {
    "NORMS": "Norm(config.width, config.eps), Norm(config.width, config.eps)",
    "NORM": "x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight",
    "SOFTMAX": "torch.softmax(scores + mask, dim=-1)",
    "ACTIVATION": "F.gelu(self.up(self.second(x)))",
    "LAYERS": "nn.ModuleList([Block(config) for _ in range(config.depth)])",
    "BLOCKS": "self.blocks",
    "EMBEDDED": "self.tokens(tokens)",
    "LOGITS": "self.head(self.norm(x))",
}


@cache
def read(name: str = "", text: str = "") -> ModelFacts:
    """The facts of the model above, with one part of it replaced."""
    source = SOURCE
    for part, usual in USUAL.items():
        source = source.replace(part, text if part == name else usual)
    with TemporaryDirectory() as folder:
        file = Path(folder) / "model.py"
        file.write_text(source)
        return read_facts(analyze(file).graph)


def test_the_usual_form_is_known():
    facts = read()
    layer = facts.layer(1)
    assert layer["attention.kind"].value == "softmax"
    assert layer["position.kind"].value == "none"
    assert layer["residual.order"].value == "r N A + r N M +"
    assert layer["mlp.kind"].value == "plain"
    assert layer["mlp.bias"].value is True
    assert layer["norm[first].epsilon"].status == DEPENDS
    assert layer["norm[first].epsilon"].fields == ("eps",)
    assert layer["norm[first].kind"].status == PROVED
    assert layer["norm[first].kind"].where.file.endswith("model.py")


@pytest.mark.parametrize(
    ("name", "text", "key", "source"),
    [
        ("NORMS", "Norm(config.width, 1e-3), Norm(config.width)", "norm[first].epsilon_source", "literal"),
        ("NORMS", "Norm(config.width, 1e-3), Norm(config.width)", "norm[second].epsilon_source", "class default"),
        ("NORMS", "nn.LayerNorm(32), Norm(config.width)", "norm[first].epsilon_source", "class default"),
        ("NORM", "F.layer_norm(x, (32,), self.weight)", "norm[first].epsilon_source", "torch default"),
        ("NORM", "F.rms_norm(x, (32,), self.weight)", "norm[first].epsilon_source", "torch default"),
        ("NORM", "F.layer_norm(x, (32,), self.weight, eps=1e-5)", "norm[first].epsilon_source", "literal"),
    ],
)
def test_the_source_of_a_constant_epsilon_is_told(name, text, key, source):
    assert read(name, text).layer(0)[key].value == source


@pytest.mark.parametrize(
    ("name", "text", "keys"),
    [
        (
            "NORM",
            "x / (x.abs() + self.eps).sqrt() * self.weight",
            ["norm[first].kind", "norm[second].cast", "residual.order"],
        ),
        (
            "SOFTMAX",
            "torch.softmax((scores + mask).roll(1, -1), dim=-1)",
            ["attention.kind", "attention.scale", "position.kind"],
        ),
        ("SOFTMAX", "torch.cumsum(scores, dim=-1)", ["attention.kind", "attention.heads"]),
        ("ACTIVATION", "torch.atan(self.up(self.second(x)))", ["mlp.kind", "mlp.activation"]),
    ],
)
def test_what_has_no_name_is_opaque_with_its_line(name, text, keys):
    facts = read(name, text)
    for key in keys:
        fact = facts.layer(1)[key]
        assert (fact.status, fact.value) == (OPAQUE, None), key
        assert "model.py:" in fact.reason


@pytest.mark.parametrize(
    ("name", "text", "key", "value"),
    [
        (
            "EMBEDDED",
            "self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1]))",
            "embedding.positions",
            "learned",
        ),
        (
            "EMBEDDED",
            "self.tokens(tokens) + self.positions.weight[: tokens.shape[1]]",
            "embedding.positions",
            "learned",
        ),
        ("EMBEDDED", "self.tokens(tokens) * 3.0", "embedding.scale", 3.0),
        ("EMBEDDED", "self.norm(self.tokens(tokens))", "embedding.norm", True),
        ("LOGITS", "self.head(self.norm(x)) / 4", "head.scale", 0.25),
        ("LOGITS", "torch.tanh(self.head(self.norm(x)) / 5) * 5", "head.softcap", 5),
        ("LOGITS", "F.linear(self.norm(x), self.tokens.weight)", "head.tied", True),
        ("LOGITS", "F.linear(self.norm(x), F.normalize(self.head.weight, dim=-1))", "head.tied", False),
    ],
)
def test_the_ends_of_the_model_are_read_by_dataflow(name, text, key, value):
    assert read(name, text).model[key].value == value


MASKS = {
    "the usual": ("mask", (PROVED, None)),
    "of booleans": ("(mask < 0).to(x.dtype) * -1e9", (PROVED, None)),
    "a window": ("mask + torch.full((t, t), float('-inf')).tril(-3)", (PROVED, 3)),
    "a window longer than the text": ("mask + torch.full((t, t), -1e9).tril(-4000)", (OPAQUE, None)),
    "a window of a field": ("mask + torch.full((t, t), -1e9).tril(-self.heads)", (DEPENDS, 4)),
    "every second key": ("mask.masked_fill((torch.arange(t) % 2 == 1)[None, :], -1e9)", (OPAQUE, None)),
    "ones for what is seen": ("mask == 0", (OPAQUE, None)),
    "a distance": ("mask.clamp(min=-1e9) + torch.arange(t)[None, :]", (OPAQUE, None)),
}


@pytest.mark.parametrize("name", MASKS)
def test_a_mask_made_by_hand_is_read_by_its_numbers_or_hides_the_window(name):
    added, expected = MASKS[name]
    fact = read("SOFTMAX", f"torch.softmax(scores + ({added}), dim=-1)").layer(1)["attention.window"]
    assert (fact.status, fact.value) == expected


@pytest.mark.parametrize(
    "seen",
    [
        "torch.ones(t, t).tril().triu(-7)",
        "torch.ones(t, t).triu(-7).tril()",
        "torch.ones(t, t).tril() * torch.ones(t, t).triu(-7)",
        "torch.ones(t, t).bool().tril() & torch.ones(t, t).bool().triu(-7)",
    ],
)
def test_a_window_may_be_cut_out_by_two_triangles(seen):
    fact = read("SOFTMAX", f"torch.softmax(scores.masked_fill({seen} == 0, -torch.inf), dim=-1)").layer(0)
    assert (fact["attention.window"].value, fact["attention.window"].status) == (8, PROVED)


def test_a_triangle_below_the_diagonal_alone_is_no_window():
    seen = "torch.ones(t, t).triu(-7)"
    fact = read("SOFTMAX", f"torch.softmax(scores.masked_fill({seen} == 0, -torch.inf), dim=-1)").layer(0)
    assert fact["attention.window"].value is None


def test_a_cap_that_is_none_is_not_called_one():
    assert read("LOGITS", "torch.tanh(self.head(self.norm(x)) / 5) * 4").model["head.softcap"].status == OPAQUE


def test_layers_may_be_called_by_name():
    text = "nn.ModuleDict({f'block_{i}': Block(config) for i in range(config.depth)})"
    source = SOURCE.replace("BLOCKS", "self.blocks.values()")
    with TemporaryDirectory() as folder:
        for part, usual in USUAL.items():
            source = source.replace(part, text if part == "LAYERS" else usual)
        (Path(folder) / "model.py").write_text(source)
        facts = read_facts(analyze(Path(folder) / "model.py").graph)
    assert facts.model["layers"].value == 2
    assert facts.layer(1)["residual.order"].value == "r N A + r N M +"


def test_facts_are_plain_data():
    data = json.loads(json.dumps(read().as_dict()))
    assert set(data) == {"architecture", "model_type", "model", "layers"}
    fact = data["layers"][0]["facts"]["norm[first].epsilon"]
    assert set(fact) == {"value", "status", "where", "fields"}
    assert set(fact["where"]) == {"file", "line"}


def test_a_layer_that_is_not_there_is_an_error():
    with pytest.raises(IndexError):
        read().layer(7)


@pytest.mark.parametrize(
    ("name", "text", "named"),
    [
        ("ACTIVATION", "F.gelu(self.up(self.second(x))) + self.up(x).std()", ["linear of up.weight", "std"]),
        ("ACTIVATION", "F.gelu(self.up(self.second(x))) * torch.sigmoid(x[..., :1])", ["sigmoid"]),
        ("EMBEDDED", "self.tokens(tokens) + self.positions(tokens)", ["embedding of positions.weight"]),
        ("LOGITS", "self.head(self.norm(x) @ self.head.weight.T @ self.head.weight)", ["matmul of head.weight"]),
        ("LOGITS", "self.head(self.norm(x).cumsum(1))", ["cumsum"]),
    ],
)
def test_what_no_fact_states_is_named_with_its_line(name, text, named):
    facts = read(name, text)
    for scope in (facts.layer(1), facts.model):
        fact = scope["unexplained"]
        assert fact.status == (OPAQUE if (scope is facts.model) == (name != "ACTIVATION") else PROVED)
        if fact.reason:
            assert all(each in fact.reason for each in named)
            assert "model.py:" in fact.reason


def test_an_mlp_without_an_activation_is_not_said_to_be_none():
    assert read("ACTIVATION", "self.up(self.second(x))").layer(0)["mlp.kind"].status == OPAQUE


def test_layers_that_are_never_reached_are_opaque():
    facts = read("BLOCKS", "torch.split_modules(self.blocks)")
    (kind,) = facts.kinds
    assert (kind.stack, kind.layers) == ("blocks", (0, 1))
    assert {fact.status for fact in kind.facts.values()} == {OPAQUE}
    assert {"attention.kind", "mlp.kind", "router.top_k", "norm[first].epsilon", "unexplained"} <= set(kind.facts)
    assert all("never reached" in fact.reason and "model.py:" in fact.reason for fact in kind.facts.values())


def test_layers_that_are_never_called_are_left_out_where_everything_is_understood():
    assert read("BLOCKS", "self.blocks[:1]").kinds[0].layers == (0,)
    assert len(read("BLOCKS", "self.blocks[:1]").kinds) == 1

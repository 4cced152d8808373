"""A model in which one thing is changed: a stated fact says so, or `unexplained` names the line."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from kunport.analysis import analyze
from kunport.variants import read_facts

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
    groups: int = 2
    depth: int = 3
    eps: float = 1e-5


class Norm(nn.Module):
    def __init__(self, width, eps):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(width)), eps

    def forward(self, x):
        y = x.float()
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps)
        return self.weight * y.to(x.dtype)


def turned(x, cos, sin):
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.heads, self.groups, self.size = config.heads, config.groups, config.width // config.heads
        self.first, self.second = Norm(config.width, config.eps), Norm(config.width, config.eps)
        self.q, self.o = (nn.Linear(config.width, config.width, bias=False) for _ in range(2))
        self.k, self.v = (nn.Linear(config.width, self.groups * self.size, bias=False) for _ in range(2))
        self.gate, self.up = (nn.Linear(config.width, 64, bias=False) for _ in range(2))
        self.down = nn.Linear(64, config.width, bias=False)

    def attend(self, x, cos, sin):
        b, t, _ = x.shape
        q = self.q(x).view(b, t, -1, self.size).transpose(1, 2)
        k, v = (each(x).view(b, t, -1, self.size).transpose(1, 2) for each in (self.k, self.v))
        q = turned(q, cos, sin)
        k = turned(k, cos, sin)
        # heads
        k, v = (each.repeat_interleave(self.heads // self.groups, dim=1) for each in (k, v))
        mask = torch.full((t, t), float("-inf"), dtype=x.dtype, device=x.device).triu(1)
        weights = torch.softmax(q @ k.transpose(-2, -1) * self.size**-0.5 + mask, dim=-1)
        y = (weights @ v).transpose(1, 2).reshape(b, t, -1)
        # attended
        return self.o(y)

    def forward(self, x, start, cos, sin):
        h = self.first(x)
        # normed
        x = x + self.attend(h, cos, sin)
        h = self.second(x)
        gate, up = self.gate(h), self.up(h)
        # halves
        return x + self.down(F.silu(gate) * up)


class Model(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        self.size = config.width // config.heads
        self.tokens = nn.Embedding(config.vocab, config.width)
        self.blocks = nn.ModuleList([Block(config) for _ in range(config.depth)])
        self.norm = Norm(config.width, config.eps)
        self.head = nn.Linear(config.width, config.vocab, bias=False)

    def forward(self, tokens):
        x = start = self.tokens(tokens)
        # embedded
        angles = torch.outer(
            torch.arange(tokens.shape[1], device=x.device),
            10000.0 ** (-torch.arange(0, self.size, 2, device=x.device) / self.size),
        )
        cos, sin = (torch.cat((each, each), -1).to(x.dtype) for each in (angles.cos(), angles.sin()))
        for block in self.blocks:
            x = block(x, start, cos, sin)
        # last
        return self.head(self.norm(x))
"""
SHIFTED = "torch.cat((torch.zeros_like({0}[:, :1]), {0}[:, :-1]), dim=1)"
# What is changed -> the text that is replaced, and by what; a mark is replaced by a statement.
CHANGES = {
    "a shift of tokens": ("# normed", f"h = {SHIFTED.format('h')}"),
    "a shift of half of a token": ("# normed", f"h = torch.cat(({SHIFTED.format('h')}[..., :16], h[..., 16:]), -1)"),
    "a shift of the MLP's half": ("# halves", f"up = {SHIFTED.format('up')}"),
    "a shifted embedding": ("# embedded", f"x = x + {SHIFTED.format('x')}"),
    "a shift of keys": ("# heads", "k = torch.cat((k[:, :, :1], k[:, :, :-1]), dim=2)"),
    "halves of queries changed": ("# heads", "q = torch.cat((q[..., 4:], q[..., :4]), dim=-1)"),
    "a query that grows": (
        "# heads",
        "q = q * torch.log(torch.arange(t, device=x.device) / 512.0).clamp(min=1.0)[:, None]",
    ),
    "a value that is rotated": ("# heads", "v = turned(v, cos, sin)"),
    "a value that is scaled": ("# heads", "v = v * 0.5"),
    "a value with the key": ("# heads", "v = v + k"),
    "a value that is the key": ("(self.k, self.v))", "(self.k, self.k))"),
    "keys without rotation": ("        k = turned(k, cos, sin)\n", ""),
    "keys by other angles": ("k = turned(k, cos, sin)", "k = turned(k, cos * cos - sin * sin, 2 * sin * cos)"),
    "the negative angle": ("for each in (angles.cos(), angles.sin())", "for each in (angles.cos(), -angles.sin())"),
    "heads repeated in turn": ("repeat_interleave(self.heads // self.groups, dim=1)", "repeat(1, 2, 1, 1)"),
    "a result turned round": ("# attended", "y = torch.cat((y[..., 8:], y[..., :8]), dim=-1)"),
    "one more in the MLP": ("# halves", "up = up + 1"),
    "half of the MLP": ("# halves", "up = up * 0.5"),
    "a negative gate": ("# halves", "gate = -gate"),
    "an activation more": ("# halves", "up = F.silu(up)"),
    "an embedding and one": ("# embedded", "x = x + 1.0"),
    "the next token's embedding": ("self.tokens(tokens)", "self.tokens(tokens + 1)"),
    "the embedding again": ("# normed", "h = h + start"),
    "the embedding at the end": ("# last", "x = x + start"),
    "a norm of a norm": ("h = self.second(x)", "h = self.second(h)"),
    "a norm twice": ("h = self.first(x)", "h = self.first(self.first(x))"),
    "layers from the last": ("in self.blocks:", "in reversed(self.blocks):"),
    "layers twice": ("in self.blocks:", "in list(self.blocks) * 2:"),
    "a weight less one": ("self.weight * y", "(self.weight - 1) * y"),
    "a weight squared": ("self.weight * y", "self.weight * self.weight * y"),
    "a view that mixes tokens": ("# normed", "h = h.transpose(1, 2).reshape(h.shape)"),
    "heads that are not turned back": (
        "(weights @ v).transpose(1, 2).reshape(b, t, -1)",
        "(weights @ v).reshape(b, t, -1)",
    ),
    "an activation in half": ("# halves", "up = up.to(torch.bfloat16).to(x.dtype)"),
    "whole numbers": ("# embedded", "x = (x * 8).to(torch.int32).to(x.dtype)"),
    "tables in half": ("-1).to(x.dtype) for each", "-1).to(torch.bfloat16).to(x.dtype) for each"),
    "a norm in float16": ("x.float()", "x.to(torch.float16)"),
    "half of a branch": ("x + self.attend(h, cos, sin)", "torch.add(x, self.attend(h, cos, sin), alpha=0.5)"),
    "a write into a row": ("# normed", "h.select(-1, 0).fill_(0.0)"),
    "a write into a part": ("# normed", "h.split(16, -1)[0].mul_(3)"),
    "a write into a piece": ("# normed", "h.unbind(1)[0].zero_()"),
    "a result put elsewhere": ("# normed", "torch.mul(h, 2.0, out=h)"),
    "a function in place": ("# normed", "F.silu(h, inplace=True)"),
    "a module in place": ("# normed", "nn.ReLU(inplace=True)(h)"),
    "a scale by the length": ("self.size**-0.5", "t**-0.5"),
    "an embedding by the length": ("# embedded", "x = x * tokens.shape[1] ** 0.5"),
    "a hook": (
        "self.down = nn",
        "self.o.register_forward_hook(lambda module, given, made: made * 2)\n        self.down = nn",
    ),
    "another type for products": (
        "for block in self.blocks:",
        "for block in [torch.autocast('cpu'), *self.blocks][1:]:",
    ),
    "every other position": ("torch.arange(tokens.shape[1], device", "torch.arange(0, 2 * tokens.shape[1], 2, device"),
    "positions from the last": (
        "torch.arange(tokens.shape[1], device",
        "torch.arange(tokens.shape[1] - 1, -1, -1, device",
    ),
    "keys a position on": (
        "k = turned(k, cos, sin)",
        "a = torch.outer(torch.arange(1, t + 1), 10000.0 ** (-torch.arange(0, self.size, 2) / self.size))\n"
        "        k = turned(k, torch.cat((a, a), -1).cos(), torch.cat((a, a), -1).sin())",
    ),
    "positions that are learned from the last": (
        "# embedded",
        "x = x + self.head.weight[:, :].index_select(0, torch.arange(tokens.shape[1]).flip(0))",
    ),
    "the last norm twice": ("self.head(self.norm(x))", "self.head(self.norm(self.norm(x)))"),
    "some of the logits": ("self.head(self.norm(x))", "self.head(self.norm(x))[..., :40]"),
    "logits turned round": ("self.head(self.norm(x))", "self.head(self.norm(x)).flip(-1)"),
    "a key that is the query": ("        k, v = (each(x)", "        self.k = self.q\n        k, v = (each(x)"),
    "tokens that see all": (" + mask, dim=-1)", ", dim=-1)"),
    "a branch that is left out": ("return x + self.down", "return start + self.down"),
    "a bounded activation": ("F.silu(gate) * up", "F.silu(gate).clamp(max=2.0) * up"),
    "an embedding that is shortened": ("config.vocab, config.width)", "config.vocab, config.width, max_norm=1.0)"),
}

MIXTURE = """class Expert(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gate, self.up = (nn.Linear(width, 64, bias=False) for _ in range(2))
        self.down = nn.Linear(64, width, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Mixture(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.router = nn.Linear(width, 4, bias=False)
        self.experts = nn.ModuleList([Expert(width) for _ in range(4)])

    def forward(self, x):
        x = x.view(-1, x.shape[-1])
        routed = x
        # routed
        weights, chosen = torch.topk(F.softmax(self.router(routed), dim=-1, dtype=torch.float32), 2, dim=-1)
        y = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            token, place = torch.where(chosen == number)
            y.index_add_(0, token, expert(x[token]) * weights[token, place, None].to(x.dtype))
        # mixed
        return y


class Block(nn.Module):"""
MIXED = [
    ("class Block(nn.Module):", MIXTURE),
    (
        "self.down = nn.Linear(64, config.width, bias=False)\n\n    def attend",
        "self.mixed = Mixture(config.width)\n\n    def attend",
    ),
    ("x + self.down(F.silu(gate) * up)", "x + self.mixed(h).view(x.shape)"),
]
KEYS_ONLY = "k = turned(F.rms_norm(k, (self.size,), None, 1e-5), cos, sin)"
HALF = "F.rms_norm({0}.unflatten(-1, (2, -1)), (self.size // 2,), None, 1e-5).flatten(-2)"
# What is changed -> the key that no longer has a value, and what is replaced.
OPAQUE = {
    "half of one branch": ("residual.multiplier", [("x + self.attend", "x + 0.5 * self.attend")]),
    "experts that are scaled": ("residual.multiplier", [*MIXED, ("# mixed", "y = y * 2.5")]),
    "a branch that is added twice": (
        "residual.order",
        [("return x + self.down(F.silu(gate) * up)", "y = self.down(F.silu(gate) * up)\n        return x + y + y")],
    ),
    "a vector that is added to all tokens": ("unexplained", [("# embedded", "x = x + self.norm.weight")]),
    "positions that are scaled with the tokens": (
        "unexplained",
        [("# embedded", "x = (x + self.head.weight[: tokens.shape[1]]) * 3.0")],
    ),
    "a weight of the head that is normalised": (
        "unexplained",
        [("self.head(self.norm(x))", "F.linear(self.norm(x), F.normalize(self.head.weight, dim=-1))")],
    ),
    "keys alone that are normalised": ("attention.qk_norm", [("k = turned(k, cos, sin)", KEYS_ONLY)]),
    "a norm over half of a head": (
        "attention.qk_norm_span",
        [(f"{each} = turned({each},", f"{each} = turned({HALF.format(each)},") for each in "qk"],
    ),
    "a norm for the router alone": ("residual.order", [*MIXED, ("# routed", "routed = F.normalize(x, dim=-1)")]),
    "an expert that all tokens use as well": ("experts.shared", [*MIXED, ("# mixed", "y = y + self.experts[1](x)")]),
    "positions that end": (
        "unexplained",
        [("device=x.device),\n            10000", "device=x.device).clamp(max=2000),\n            10000")],
    ),
    "rotations that begin again": (
        "unexplained",
        [("device=x.device),\n            10000", "device=x.device) % 4096,\n            10000")],
    ),
    "learned positions that begin again": (
        "unexplained",
        [("# embedded", "x = x + F.embedding(torch.arange(tokens.shape[1]) % 40, self.head.weight)")],
    ),
}


@cache
def _read(change: str = "") -> list[tuple[str, str, object]]:
    return _facts([CHANGES[change]] if change else [])


def _facts(changes: list[tuple[str, str]]) -> list[tuple[str, str, object]]:
    source = SOURCE
    for old, new in changes:
        assert old in source
        source = source.replace(old, new)
    with TemporaryDirectory() as folder:
        path = Path(folder, "model.py")
        path.write_text(source)
        facts = read_facts(analyze(path).graph)
    return [(key, fact.status, fact.value) for key, fact in facts.walk()]


def test_the_model_itself_is_explained():
    assert [key for key, status, _ in _read() if status == "opaque"] == []
    assert [value for key, _, value in _read() if key == "unexplained"] == [[], []]


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_stated_or_named(change):
    assert _read(change) != _read()


def test_the_model_with_experts_is_explained():
    assert [key for key, status, _ in _facts(MIXED) if status == "opaque"] == []


@pytest.mark.parametrize("change", OPAQUE)
def test_what_a_key_cannot_say_is_opaque(change):
    key, changes = OPAQUE[change]
    found = [status for name, status, _ in _facts(changes) if name == key]
    assert "opaque" in found
    assert not any(name.startswith("norm[Model]") for name, _, _ in _facts(changes))


def test_a_vector_that_is_added_to_all_tokens_is_no_position():
    assert ("embedding.positions", "proved", None) in _facts(OPAQUE["a vector that is added to all tokens"][1])

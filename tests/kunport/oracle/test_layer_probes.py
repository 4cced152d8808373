"""Toy layers: their feed-forward part, their experts and their residual skeleton, found out by the probes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from kunport.oracle.activations import ACTIVATIONS
from kunport.oracle.feedforward import find_parts, label_feedforward
from kunport.oracle.labels import Scope
from kunport.oracle.norm_form import NormForm, find_form
from kunport.oracle.residual import label_residual
from kunport.oracle.router import find_choices, label_experts
from kunport.oracle.structure import Layer, find_layers
from kunport.oracle.watch import watch
from torch import Tensor, nn
from torch.nn import functional
from toy_attention import LENGTH, RMS, Attention, Habits

WIDTH = 32


class Activation(nn.Module):
    """An activation as a module, as Transformers has them."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.function = ACTIVATIONS[name]

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


class MLP(nn.Module):
    """Gated or plain, packed or not."""

    def __init__(
        self,
        activation: str = "silu",
        kind: str = "gated",
        packing: str = "separate",
        bias: bool = False,
        normed: bool = False,
    ) -> None:
        super().__init__()
        self.activation, self.kind, self.packing = Activation(activation), kind, packing
        self.norm = RMS(48) if normed else None
        if packing == "separate" and kind == "gated":
            self.gate = nn.Linear(WIDTH, 48, bias=bias)
        self.up = nn.Linear(WIDTH, 96 if packing == "fused" else 48, bias=bias)
        self.down = nn.Linear(48, WIDTH, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        if self.kind == "plain":
            inner = self.activation(self.up(x))
        else:
            gate, up = self.up(x).chunk(2, -1) if self.packing == "fused" else (self.gate(x), self.up(x))
            inner = self.activation(gate) * up
        return self.down(inner if self.norm is None else self.norm(inner))


class Block(nn.Module):
    """A layer whose forward is given: ``order(self, x)``."""

    def __init__(self, order: Callable[[Block, Tensor], Tensor], mlp: nn.Module | None = None) -> None:
        super().__init__()
        self.norm_1, self.norm_2, self.norm_3, self.norm_4 = (RMS(WIDTH) for _ in range(4))
        self.attention = Attention(Habits(heads=4, head_dim=8))
        self.mlp = mlp or MLP()
        self.order = order

    def forward(self, x: Tensor) -> Tensor:
        return self.order(self, x)


class Model(nn.Module):
    def __init__(self, block: nn.Module) -> None:
        super().__init__()
        self.layers = nn.ModuleList([block])

    def forward(self, x: Tensor) -> Tensor:
        return self.layers[0](x)


def layer_of(block: nn.Module) -> Layer:
    torch.manual_seed(0)
    model = Model(block)
    with torch.no_grad(), watch(model, LENGTH) as record:
        model(torch.randn(1, LENGTH, WIDTH))
    (layer,) = find_layers(model, record)
    return layer


def standard(self: Block, x: Tensor) -> Tensor:
    x = x + self.attention(self.norm_1(x))
    return x + self.mlp(self.norm_2(x))


def scaled(self: Block, x: Tensor) -> Tensor:
    x = x + 0.3 * self.attention(self.norm_1(x))
    return x + 0.3 * self.mlp(self.norm_2(x))


def parallel(self: Block, x: Tensor) -> Tensor:
    y = self.norm_1(x)
    return x + self.attention(y) + self.mlp(y)


def two_norms_in_parallel(self: Block, x: Tensor) -> Tensor:
    return self.attention(self.norm_1(x)) + self.mlp(self.norm_2(x)) + x


def after(self: Block, x: Tensor) -> Tensor:
    x = x + self.norm_1(self.attention(x))
    return x + self.norm_2(self.mlp(x))


def sandwich(self: Block, x: Tensor) -> Tensor:
    x = x + self.norm_2(self.attention(self.norm_1(x)))
    return x + self.norm_4(self.mlp(self.norm_3(x)))


def old(self: Block, x: Tensor) -> Tensor:
    x = self.norm_1(x + self.attention(x))
    return self.norm_2(x + self.mlp(x))


def residual_after_norm(self: Block, x: Tensor) -> Tensor:
    y = self.norm_1(x)
    x = y + self.attention(y)
    y = self.norm_2(x)
    return y + self.mlp(y)


def without_mlp(self: Block, x: Tensor) -> Tensor:
    return x + self.attention(self.norm_1(x))


def squared(self: Block, x: Tensor) -> Tensor:
    x = x + self.attention(self.norm_1(x)) ** 2
    return x + self.mlp(self.norm_2(x))


def residual(order: Callable[[Block, Tensor], Tensor]) -> Scope:
    layer, scope = layer_of(Block(order)), Scope()
    forms = {each: find_form(each, torch.Size([WIDTH])) for each in layer.names if isinstance(each, RMS)}
    norms: dict[nn.Module, NormForm] = {module: form for module, form in forms.items() if form is not None}
    label_residual(layer, norms, {scores.owner for scores in layer.scores}, scope)
    return scope


@pytest.mark.parametrize(
    ("order", "text", "multiplier"),
    [
        (standard, "r N A + r N M +", 1.0),
        (scaled, "r N A + r N M +", 0.3),
        (parallel, "r N A M + +", 1.0),
        (two_norms_in_parallel, "r N A N M + +", 1.0),
        (after, "r A N + r M N +", 1.0),
        (sandwich, "r N A N + r N M N +", 1.0),
        (old, "r A + N r M + N", 1.0),
        (residual_after_norm, "N r A + N r M +", 1.0),
        (without_mlp, "r N A +", 1.0),
    ],
)
def test_residual_order(order: Callable[[Block, Tensor], Tensor], text: str, multiplier: float) -> None:
    scope = residual(order)
    assert scope.values.get("residual.order") == text, scope.absent
    assert scope.values["residual.multiplier"] == pytest.approx(multiplier, rel=1e-4)


def test_what_is_no_sum_has_no_order() -> None:
    scope = residual(squared)
    assert "residual.order" not in scope.values
    assert "no sum" in scope.absent["residual"]


@pytest.mark.parametrize("activation", ["silu", "gelu", "gelu_tanh", "quick_gelu", "relu", "relu2"])
@pytest.mark.parametrize(("kind", "packing"), [("gated", "separate"), ("gated", "fused"), ("plain", "separate")])
def test_feedforward(activation: str, kind: str, packing: str) -> None:
    scope = Scope()
    label_feedforward(layer_of(Block(standard, MLP(activation, kind, packing, bias=True))), scope)
    assert scope.values.get("mlp.kind") == kind, scope.absent
    assert scope.values["mlp.activation"] == activation
    assert scope.values.get("mlp.packing") == (packing if kind == "gated" else None)
    assert (scope.values["mlp.size"], scope.values["mlp.bias"]) == (48, True)


@pytest.mark.parametrize("kind", ["gated", "plain"])
def test_feedforward_with_a_norm_inside(kind: str) -> None:
    scope = Scope()
    label_feedforward(layer_of(Block(standard, MLP("relu2", kind, normed=True))), scope)
    assert (scope.values.get("mlp.kind"), scope.values.get("mlp.activation")) == (kind, "relu2"), scope.absent


def test_a_layer_without_feedforward() -> None:
    block = Block(without_mlp)
    del block.mlp
    scope = Scope()
    label_feedforward(layer_of(block), scope)
    assert scope.values == {"mlp.kind": "none"}


class Experts(nn.Module):
    def __init__(self, bias: bool) -> None:
        super().__init__()
        self.gate_up_proj = nn.Parameter(torch.randn(8, 40, WIDTH))
        self.down_proj = nn.Parameter(torch.randn(8, WIDTH, 20))
        self.down_bias = nn.Parameter(torch.randn(8, WIDTH)) if bias else None

    def forward(self, x: Tensor, index: Tensor, weights: Tensor) -> Tensor:
        gate, up = torch.einsum("th,tkeh->tke", x, self.gate_up_proj[index]).chunk(2, -1)
        out = torch.einsum("tke,tkhe->tkh", functional.relu(gate) * up, self.down_proj[index])
        out = out if self.down_bias is None else out + self.down_bias[index]
        return (out * weights[..., None]).sum(1)


class Mixture(nn.Module):
    """Top 3 of 8 experts."""

    def __init__(
        self, scoring: str, renormalize: bool, scale: float, biased: bool, groups: int | None, shared: bool
    ) -> None:
        super().__init__()
        self.scoring, self.renormalize, self.scale, self.groups = scoring, renormalize, scale, groups
        self.gate = nn.Linear(WIDTH, 8, bias=False)
        self.experts = Experts(bias=biased)
        self.shared = MLP() if shared else None
        self.register_buffer("correction", 0.1 * torch.randn(8) if biased else None)

    def forward(self, x: Tensor) -> Tensor:
        tokens = x.flatten(0, 1)
        logits = self.gate(tokens)
        scores = logits.softmax(-1) if self.scoring == "softmax" else logits.sigmoid()
        choice = scores if self.correction is None else scores + self.correction
        if self.groups:
            grouped = choice.unflatten(-1, (self.groups, -1))
            best = grouped.topk(2).values.sum(-1).topk(1).indices
            mask = torch.zeros(grouped.shape[:2]).scatter(1, best, 1.0)[..., None] == 0
            choice = grouped.masked_fill(mask, float("-inf")).flatten(-2)
        index = choice.topk(3).indices
        weights = scores.gather(1, index)
        if self.renormalize:
            weights = weights / weights.sum(-1, keepdim=True)
        out = self.experts(tokens, index, weights * self.scale).view(x.shape)
        return out if self.shared is None else out + self.shared(x)


class Settings:
    """A configuration that names no groups."""

    def to_dict(self) -> dict[str, int]:
        return {"hidden_size": WIDTH}


@pytest.mark.parametrize("scoring", ["softmax", "sigmoid"])
@pytest.mark.parametrize(
    ("renormalize", "scale", "biased", "groups", "shared"),
    [(True, 1.0, False, None, False), (False, 2.5, True, None, True), (True, 2.5, True, 2, True), (False, 1.0, False, 2, False)],
)  # fmt: skip
def test_experts(scoring: str, renormalize: bool, scale: float, biased: bool, groups: int | None, shared: bool) -> None:
    torch.manual_seed(1)
    layer = layer_of(Block(standard, Mixture(scoring, renormalize, scale, biased, groups, shared)))
    scope = Scope()
    (choice,) = find_choices(layer)
    label_experts(layer, choice, find_parts(layer), scope, Settings())
    found = scope.values
    assert found.get("router.scoring") == scoring, scope.absent
    assert (found["router.experts"], found["router.top_k"]) == (8, 3)
    assert found["router.renormalize"] is renormalize
    assert found["router.scale"] == pytest.approx(scale, rel=1e-4)
    assert found["router.correction_bias"] is biased
    assert found["router.groups"] == groups
    assert found["experts.bias"] is biased
    assert found["experts.shared"] == (2 if shared else 0)  # 48 elements beside experts of 20
    assert found.get("experts.activation") == (None if biased else "relu")

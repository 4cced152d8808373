"""Norms of every form with known numbers, found out by what they make of crafted inputs."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from kunport.oracle.norm_form import find_form
from torch import Tensor, nn


class Norm(nn.Module):
    """A norm over the last axis whose form is given, as `NormForm` names it."""

    def __init__(
        self, kind: str, shape: tuple[int, ...], epsilon: float, offset: float = 0.0, cast: str = "before_weight",
        weight: bool = True, bias: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self.kind, self.epsilon, self.offset, self.cast = kind, epsilon, offset, cast
        self.weight = nn.Parameter(torch.rand(shape) + 0.5 - offset) if weight else None
        self.bias = nn.Parameter(torch.randn(shape)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        dtype = x.dtype
        y = x if self.cast == "none" else x.float()
        if self.kind == "layer":
            y = y - y.mean(-1, keepdim=True)
        power = y.pow(2).sum(-1, keepdim=True) if self.kind == "l2" else y.pow(2).mean(-1, keepdim=True)
        y = y * torch.rsqrt(power + self.epsilon)
        if self.cast == "before_weight":
            y = y.to(dtype)
        if self.weight is not None:
            y = y * (self.offset + (self.weight.float() if self.cast == "after_weight" else self.weight))
        if self.bias is not None:
            y = y + self.bias
        return y.to(dtype)


@given(
    st.sampled_from(["rms", "layer", "l2"]),
    st.sampled_from([8, 24, 64]),
    st.floats(-11, -2),
    st.sampled_from([0.0, 1.0]),
    st.booleans(),
    st.booleans(),
)
@settings(max_examples=12)
def test_form_is_found(kind: str, size: int, power: float, offset: float, weight: bool, bias: bool) -> None:
    torch.manual_seed(0)
    form = find_form(Norm(kind, (size,), 10**power, offset, weight=weight, bias=bias), torch.Size([size]))
    assert form is not None
    assert (form.kind, form.size, form.weight, form.bias) == (kind, size, weight, bias)
    assert form.epsilon == pytest.approx(10**power, rel=2e-3)
    assert form.offset == (offset if weight else 0.0)


@pytest.mark.parametrize("cast", ["before_weight", "after_weight", "none"])
@pytest.mark.parametrize("kind", ["rms", "layer", "l2"])
@pytest.mark.parametrize("offset", [0.0, 1.0])
def test_cast_is_found(cast: str, kind: str, offset: float) -> None:
    torch.manual_seed(0)
    form = find_form(Norm(kind, (64,), 1e-5, offset, cast), torch.Size([64]))
    assert form is not None
    assert form.cast == cast


@pytest.mark.parametrize(("module", "kind"), [(nn.LayerNorm(48, eps=3e-5), "layer"), (nn.RMSNorm(48, eps=3e-5), "rms")])
def test_cast_of_a_single_operator_is_not_told(module: nn.LayerNorm | nn.RMSNorm, kind: str) -> None:
    nn.init.uniform_(module.weight, 0.5, 2.0)
    form = find_form(module, torch.Size([48]))
    assert form is not None
    assert (form.kind, form.cast) == (kind, "")
    assert form.epsilon == pytest.approx(3e-5, rel=1e-3)


def test_weights_by_head() -> None:
    torch.manual_seed(0)
    form = find_form(Norm("layer", (4, 16), 1e-6), torch.Size([4, 16]))
    assert form is not None
    assert (form.kind, form.size, form.weight) == ("layer", 16, True)


class Grouped(nn.Module):
    """An RMS norm over each of two halves."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(32))

    def forward(self, x: Tensor) -> Tensor:
        groups = x.unflatten(-1, (2, 16))
        return self.weight * (groups * torch.rsqrt(groups.pow(2).mean(-1, keepdim=True) + 1e-5)).flatten(-2)


def test_groups_have_the_size_of_a_group() -> None:
    form = find_form(Grouped(), torch.Size([32]))
    assert form is not None
    assert (form.kind, form.size) == ("rms", 16)


class Clamped(nn.Module):
    """Torch's ``normalize``: the length is clamped, nothing is added under the root."""

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.normalize(x, dim=-1, eps=1e-4)


def test_an_epsilon_of_another_kind_is_not_told() -> None:
    form = find_form(Clamped(), torch.Size([16]))
    assert form is not None
    assert (form.kind, form.epsilon) == ("l2", None)


class Swapped(nn.Module):
    """A norm whose weight is squared."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(16) + 0.5)

    def forward(self, x: Tensor) -> Tensor:
        return self.weight**2 * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)


@pytest.mark.parametrize(
    "module", [nn.Linear(16, 16), nn.SiLU(), nn.Identity(), nn.Softmax(-1), Swapped(), nn.Bilinear(16, 16, 16)]
)
def test_what_is_no_norm_has_no_form(module: nn.Module) -> None:
    torch.manual_seed(0)
    assert find_form(module, torch.Size([16])) is None

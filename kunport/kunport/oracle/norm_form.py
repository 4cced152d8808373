"""The form of a normalisation, from what it makes of crafted inputs."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from kunport.oracle.watch import close, first_tensor

_SAMPLES = 24
_TORCH = (nn.LayerNorm, nn.RMSNorm)  # one operator: where it rounds is torch's own affair


@dataclass(frozen=True, slots=True)
class NormForm:
    """``y = (offset + weight) * statistic(x) + bias`` over the last ``size`` elements.

    ``kind`` is ``rms``, ``layer`` or ``l2``; ``weight`` and ``bias`` say whether there are such parameters.
    ``epsilon`` is what is added under the root, None where that form does not fit; ``cast`` is ``before_weight``,
    ``after_weight``, ``none`` or "" where the rounding does not tell.
    """

    kind: str
    size: int
    weight: bool
    bias: bool
    offset: float
    epsilon: float | None
    cast: str


@dataclass(frozen=True, slots=True)
class _Fit:
    kind: str
    gain: Tensor
    shift: Tensor


def find_form(module: nn.Module, shape: torch.Size) -> NormForm | None:
    """The form of ``module``, which reads tensors that end in ``shape``; None where it is no norm over the last axis.

    Shape: ``shape`` holds one token's axes, ``[size]`` or ``[heads, size]``.
    """
    generator = torch.Generator().manual_seed(0)
    inputs = 30.0 * torch.randn((1, _SAMPLES, *shape), generator=generator)
    apply = _function(module)
    if (size := _size(apply, inputs)) is None:
        return None
    grouped = inputs.reshape(1, _SAMPLES, *shape[:-1], -1, size)
    parameters = [_spread(value, shape) for value in module.parameters(recurse=False)]
    fits = ((fit, _roles(fit, parameters)) for fit in _fits(apply, inputs, grouped))
    fit, roles = next(((fit, roles) for fit, roles in fits if roles is not None), (None, None))
    if fit is None or roles is None:
        return None
    weight, bias, offset = roles
    epsilon = _epsilon(apply, fit, inputs, size)
    form = NormForm(fit.kind, size, weight is not None, bias is not None, offset, epsilon, "")
    cast = _cast(module, form, weight, inputs) if weight is not None and epsilon is not None else ""
    return NormForm(fit.kind, size, weight is not None, bias is not None, offset, epsilon, cast)


def statistic(kind: str, tensor: Tensor, epsilon: float) -> Tensor:
    """The normalised tensor, without weight and bias, over the last axis."""
    if kind == "layer":
        tensor = tensor - tensor.mean(-1, keepdim=True)
    power = tensor.pow(2).sum(-1, keepdim=True) if kind == "l2" else tensor.pow(2).mean(-1, keepdim=True)
    return tensor * torch.rsqrt(power + epsilon)


def _function(module: nn.Module) -> Callable[[Tensor], Tensor]:
    def apply(tensor: Tensor) -> Tensor:
        with torch.no_grad():
            result = first_tensor(module(tensor))
        if result is None or result.shape != tensor.shape:
            raise ValueError("not a tensor of the same shape")
        return result

    return apply


def _size(apply: Callable[[Tensor], Tensor], inputs: Tensor) -> int | None:
    """How many neighbouring elements share a statistic: those that one element changes."""
    probe = inputs[:, :1]
    changed = probe.clone()
    changed[..., 0] *= 3
    try:
        moved = (apply(probe) - apply(changed)).abs().reshape(-1, probe.shape[-1]).amax(0) > 1e-6
    except (ValueError, TypeError, RuntimeError, AttributeError):
        return None
    size = int(moved.sum())
    return size if size > 1 and bool(moved[:size].all()) and probe.shape[-1] % size == 0 else None


def _fits(apply: Callable[[Tensor], Tensor], inputs: Tensor, grouped: Tensor) -> Iterator[_Fit]:
    """The statistics of which the output is an affine function, element by element."""
    output = apply(inputs)
    for kind in ("rms", "layer", "l2"):
        normal = statistic(kind, grouped, 0.0).reshape(inputs.shape)
        mean, centre = normal.mean(1, keepdim=True), output.mean(1, keepdim=True)
        gain = ((normal - mean) * (output - centre)).sum(1) / (normal - mean).pow(2).sum(1)
        shift = centre[:, 0] - gain * mean[:, 0]
        if close(output, gain[:, None] * normal + shift[:, None]):
            yield _Fit(kind, gain[0], shift[0])


def _spread(parameter: Tensor, shape: torch.Size) -> Tensor | None:
    try:
        return parameter.detach().float().expand(shape)
    except RuntimeError:
        return None


def _roles(fit: _Fit, parameters: list[Tensor | None]) -> tuple[Tensor | None, Tensor | None, float] | None:
    """The weight and the bias among the parameters and the weight's offset; None where one of them does neither."""
    weight = bias = None
    offset = 0.0
    for value in parameters:
        if value is None:
            return None
        difference = fit.gain - value
        if float(difference.std()) < 1e-3 and weight is None:
            weight, offset = value, round(float(difference.mean()), 3) + 0.0
        elif float((fit.shift - value).abs().max()) < 1e-3:
            bias = value
        else:
            return None
    if weight is None and not close(fit.gain, torch.ones_like(fit.gain), 1e-3):
        return None
    if bias is None and float(fit.shift.abs().max()) > 1e-3:
        return None
    return weight, bias, offset


def _epsilon(apply: Callable[[Tensor], Tensor], fit: _Fit, inputs: Tensor, size: int) -> float | None:
    """What is added under the root: the gain that is lost on small inputs gives it."""
    direction = inputs / 30.0
    grouped = direction.reshape(*direction.shape[:-1], -1, size)
    if fit.kind == "layer":
        grouped = grouped - grouped.mean(-1, keepdim=True)
    power = grouped.pow(2).sum(-1, keepdim=True) if fit.kind == "l2" else grouped.pow(2).mean(-1, keepdim=True)
    target = fit.gain * grouped.reshape(direction.shape)
    power = power.expand(grouped.shape).reshape(direction.shape)

    def estimate(scale: float) -> Tensor:
        slope = (apply(scale * direction) - fit.shift).double() / (scale * target.double())
        weight = target.abs() > target.abs().median()  # small elements carry only rounding
        return (slope.pow(-2) - scale**2 * power.double())[weight].median()

    scale = 1e-2
    for _ in range(12):
        epsilon = float(estimate(scale))
        if epsilon < 1e-3 * scale**2 and scale > 1e-7:
            scale *= 0.1
        else:
            scale = max(0.5 * epsilon**0.5, 1e-7) if epsilon > 0 else 1e-7
    if not epsilon > 1e-3 * scale**2:
        return 0.0
    other = float(estimate(2 * epsilon**0.5))
    return epsilon if abs(other - epsilon) < 0.02 * epsilon else None


def _cast(module: nn.Module, form: NormForm, weight: Tensor, inputs: Tensor) -> str:
    """Where the result returns to bfloat16, by which of the three orders gives the very same bits."""
    if type(module).forward in (kind.forward for kind in _TORCH):
        return ""
    half = copy.deepcopy(module).to(torch.bfloat16)
    tensor = (inputs / 30.0).to(torch.bfloat16)
    output = _function(half)(tensor)
    if output.dtype != torch.bfloat16 or form.bias:
        return ""
    low = weight.to(torch.bfloat16)
    grouped = tensor.reshape(*tensor.shape[:-1], -1, form.size)
    normal = statistic(form.kind, grouped.float(), form.epsilon or 0.0).reshape(tensor.shape)
    rough = statistic(form.kind, grouped, form.epsilon or 0.0).reshape(tensor.shape)
    orders = {
        "before_weight": normal.to(torch.bfloat16) * (form.offset + low),
        "after_weight": (normal * (form.offset + low.float())).to(torch.bfloat16),
        "none": rough * (form.offset + low),
    }
    same = {order: float((value == output).float().mean()) for order, value in orders.items()}
    best, second = sorted(same, key=lambda order: -same[order])[:2]
    return best if same[best] > 0.99 and same[best] - same[second] > 0.02 else ""

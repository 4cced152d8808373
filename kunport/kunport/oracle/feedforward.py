"""The labels of a layer's dense feed-forward part."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from kunport.oracle.activations import ACTIVATIONS, OTHER_NAMES
from kunport.oracle.labels import Scope
from kunport.oracle.mixers import kind_of
from kunport.oracle.structure import Layer
from kunport.oracle.watch import Call, close, watch


@dataclass(frozen=True, slots=True)
class FeedForward:
    """``down(activation(gate) * up)`` or ``down(activation(up))``; ``activation`` is "" where it is none of the named.

    ``packing`` is ``separate`` or ``fused``, "" where there is only one projection.
    """

    kind: str
    activation: str
    packing: str
    bias: bool
    size: int


def label_feedforward(layer: Layer, scope: Scope) -> None:
    """Label a layer that has exactly one dense feed-forward part; the caller knows that it has no experts."""
    parts = find_parts(layer)
    if not parts:
        if _outside_mixers(layer):
            scope.skip("mlp", "no part has the form of an MLP")
        else:
            scope.label("mlp.kind", "none")
        return
    if len(parts) > 1 or len(_candidates(layer)) > 1:
        scope.skip("mlp", "the layer has several feed-forward parts")
        return
    part = next(iter(parts.values()))
    scope.label("mlp.kind", part.kind)
    scope.label("mlp.bias", part.bias)
    scope.label("mlp.size", part.size)
    if part.packing:
        scope.label("mlp.packing", part.packing)
    if part.activation:
        scope.label("mlp.activation", part.activation, *OTHER_NAMES.get(part.activation, []))
    else:
        scope.skip("mlp.activation", "none of the named activations fits")


def find_parts(layer: Layer) -> dict[nn.Module, FeedForward]:
    """Module -> form, of the modules in a layer that are a feed-forward part, the layer itself where it holds one."""
    found: dict[nn.Module, FeedForward] = {}
    for module, call in _candidates(layer).items():
        linear = [child for child in module.children() if _is_linear(child)]
        form = None if found and module is layer.module else _form(call, linear, natural=module is layer.module)
        if form is not None:
            found[module] = form
    return found


def _candidates(layer: Layer) -> dict[nn.Module, Call]:
    """What holds two linear layers and is in no mixer and around none, the layer itself last."""
    mixers = _mixers(layer)
    found: dict[nn.Module, Call] = {}
    for call in [*layer.calls, layer.call]:
        around = call.module is not layer.module and any(module in mixers for module in call.module.modules())
        inside = any(module in mixers for module in call.stack)
        if not around and not inside and sum(map(_is_linear, call.module.children())) >= 2:
            found.setdefault(call.module, call)
    return found


def _outside_mixers(layer: Layer) -> list[Call]:
    """The calls of linear layers that are in no mixer."""
    mixers = _mixers(layer)
    linear = [call for call in layer.calls if _is_linear(call.module)]
    return [call for call in linear if not any(module in mixers for module in call.stack)]


def _mixers(layer: Layer) -> set[nn.Module]:
    return {scores.owner for scores in layer.scores} | {module for module in layer.names if kind_of(module)}


def _form(call: Call, linear: list[nn.Module], *, natural: bool) -> FeedForward | None:
    calls = _calls(call) if not natural else None
    made: list[tuple[nn.Module, Call]] = []
    with torch.no_grad(), watch(call.module, 0) as record:
        try:
            call.module(*(call.args if calls is None else calls), **call.kwargs)
        except Exception:  # whatever the module raises, it is not of this form
            return None
    for child in linear:
        made += [(child, each) for each in record.calls if each.module is child]
    made.sort(key=lambda pair: pair[1].began)
    if len(made) < 2:
        return None
    (down, last), before = made[-1], made[:-1]
    read = last.input
    outputs = [each.result for _, each in before if each.result is not None]
    if read is None:
        return None
    for each in record.calls:  # a norm before the last projection
        if each.module in linear or not list(each.module.parameters()) or each.input is None or each.result is None:
            continue
        if each.input.shape == read.shape == each.result.shape and torch.equal(each.result, read):
            read = each.input
            break
    bias = any(getattr(child, "bias", None) is not None for child, _ in made)
    size = read.shape[-1]
    for name, function in ACTIVATIONS.items():
        if packing := _gated(read, outputs, function):
            return FeedForward("gated", name, packing, bias, size)
        if (
            len(outputs) == 1
            and outputs[0].numel() == read.numel()
            and close(function(outputs[0]).reshape(read.shape), read, 1e-6)
        ):
            return FeedForward("plain", name, "", bias, size)
    if (
        len(outputs) == 1
        and outputs[0].shape == read.shape
        and not close(outputs[0], read, 1e-6)
        and _pointwise(call, before[0][0], down)
    ):
        return FeedForward("plain", "", "", bias, size)
    return None


def _gated(read: Tensor, outputs: list[Tensor], function: Callable[[Tensor], Tensor]) -> str:
    size = read.shape[-1]
    for gate in outputs:
        for up in outputs:
            whole = gate is not up and gate.numel() == up.numel() == read.numel()
            if whole and close((function(gate) * up).reshape(read.shape), read, 1e-6):
                return "separate"
        if gate.shape[-1] == 2 * size and gate.numel() == 2 * read.numel():
            halves = gate.chunk(2, dim=-1)
            strided = (gate[..., 0::2], gate[..., 1::2])
            for one, other in (halves, halves[::-1], strided, strided[::-1]):
                if close((function(one) * other).reshape(read.shape), read, 1e-6):
                    return "fused"
    return ""


def _calls(call: Call) -> tuple[object, ...] | None:
    """The arguments with a larger first tensor, so that activations that are alike near zero differ."""
    if not call.args or not isinstance(call.args[0], Tensor):
        return None
    generator = torch.Generator().manual_seed(0)
    return (2.0 * torch.randn(call.args[0].shape, generator=generator), *call.args[1:])


def _pointwise(call: Call, up: nn.Module, down: nn.Module) -> bool:
    """Whether element i of what ``down`` reads depends on element i alone of what ``up`` puts out."""

    def run(shift: float) -> Tensor | None:
        def change(out: Tensor) -> Tensor:
            moved = out.clone()
            moved[..., 0] += shift
            return moved

        with torch.no_grad(), watch(call.module, 0, {up: change}) as record:
            call.module(*call.args, **call.kwargs)
        return next((each.input for each in record.calls if each.module is down), None)

    one, other = run(0.0), run(1.0)
    return (
        one is not None
        and other is not None
        and close(one[..., 1:], other[..., 1:], 1e-6)
        and not close(one, other, 1e-6)
    )


def _is_linear(module: nn.Module) -> bool:
    weight = getattr(module, "weight", None)
    return isinstance(weight, Tensor) and weight.ndim == 2 and not isinstance(module, nn.Embedding)

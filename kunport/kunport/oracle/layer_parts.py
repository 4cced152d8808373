"""The parts of a layer at work: norms, mixers and feed-forward parts, with what they read and make."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from kunport.oracle.norm_form import NormForm
from kunport.oracle.structure import Layer
from kunport.oracle.watch import Call, close, first_tensor


@dataclass(frozen=True, slots=True)
class Event:
    """One part of a layer at work. Tensors ``[1, sequence, hidden]``.

    ``letter`` is N for a norm, A for what mixes positions, M for what does not, ? for a second part that mixes them.
    ``last`` is what the part's last linear layer puts out, for parts that add the residual themselves. ``bordered`` is
    true where a norm inside the part reads what the part reads or makes what it makes.
    """

    letter: str
    read: Tensor
    made: Tensor
    last: Tensor | None
    bordered: bool = False


def find_events(layer: Layer, norms: dict[nn.Module, NormForm], mixers: set[nn.Module], stream: Tensor) -> list[Event]:
    """The parts of a layer at work, in order; linear layers that stand in the layer itself are one M."""
    events: list[Event] = []
    loose: list[Tensor] = []
    for call in _parts(layer, norms, mixers, stream):
        read, made = call.input, call.result
        if read is None or made is None:
            continue
        letter = _letter(layer, call, norms, mixers)
        last = _last_linear(layer, call)
        if letter == "M" and not list(call.module.children()):
            loose.append(read)
            if len(loose) < 2:
                continue
            read, last = loose[0], None
        if read.numel() == made.numel() == stream.numel():
            loose.clear()
            bordered = letter != "N" and _is_bordered(layer, call, norms, read, made)
            usable = last.reshape(stream.shape) if last is not None and last.numel() == stream.numel() else None
            events.append(Event(letter, read.reshape(stream.shape), made.reshape(stream.shape), usable, bordered))
    return events


def _letter(layer: Layer, call: Call, norms: dict[nn.Module, NormForm], mixers: set[nn.Module]) -> str:
    if call.module in norms:
        return "N"
    if any(module in mixers for module in call.module.modules()):
        return "A"
    if _mixes(call):
        return "?" if mixers & set(layer.names) else "A"
    return "M"


def _is_bordered(layer: Layer, call: Call, norms: dict[nn.Module, NormForm], read: Tensor, made: Tensor) -> bool:
    inside = [each for each in layer.calls if each.module in norms and call.began < each.began < call.ended]
    ends = [(each.input, read) for each in inside] + [(each.result, made) for each in inside]
    return any(one is not None and torch.equal(one.flatten(), end.flatten()) for one, end in ends)


def _parts(layer: Layer, norms: dict[nn.Module, NormForm], mixers: set[nn.Module], stream: Tensor) -> list[Call]:
    """The calls of the layer's parts; a part that only wraps a mixer and norms of the stream is taken apart."""
    parts: list[Call] = []
    opened = [layer.module]
    for call in layer.calls:
        if call.stack[-1] not in opened:
            continue
        inside = [each for each in layer.calls if each.stack[-1] is call.module]
        wraps = any(
            each.module in norms and each.input is not None and each.input.shape == stream.shape for each in inside
        )
        wraps = wraps and any(module in mixers for each in inside for module in each.module.modules())
        if wraps and call.module not in mixers:
            opened.append(call.module)
        elif call.module in norms or list(call.module.parameters()):
            parts.append(call)
    return parts


def _last_linear(layer: Layer, call: Call) -> Tensor | None:
    inside = [each for each in layer.calls if call.began < each.began < call.ended]
    linear = [each for each in inside if getattr(each.module, "weight", None) is not None]
    return linear[-1].result if linear else None


def _mixes(call: Call) -> bool:
    """Whether changing one position of what a part reads changes another position of what it puts out."""
    read, made = call.input, call.result
    if read is None or made is None or read.ndim != 3 or made.shape[:2] != read.shape[:2]:
        return False
    changed = read.clone()
    changed[:, 2] += 1.0

    def replaced(value: object) -> object:
        same = isinstance(value, Tensor) and value.shape == read.shape and torch.equal(value, read)
        return changed if same else value

    named = {key: replaced(value) for key, value in call.kwargs.items()}
    try:
        with torch.no_grad():
            result = first_tensor(call.module(*map(replaced, call.args), **named))
    except Exception:  # a part that cannot run again tells nothing
        return False
    return result is not None and result.shape == made.shape and not close(result[:, 3:], made[:, 3:], 1e-6)

"""The first fault, by name: which module, where in both sources."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import nn

from kunport.validation.modules.alignment import Alignment
from kunport.validation.modules.recording import Recording
from kunport.validation.modules.replay import Compared
from kunport.validation.modules.taps import IN
from kunport.validation.report import Fault


def first_fault(
    compared: Sequence[Compared], recording: Recording, alignment: Alignment, reference: nn.Module, adapter: Path | None
) -> Fault | None:
    """The fault at the first wrong point; None where all are right.

    A wrong output is its module's fault. A wrong input is the fault of what lies between: a module that only the
    adapter has, if it made exactly this value out of values that were right, else the code of the calling module.
    """
    right: set[int] = set()
    for place in compared:
        if place.result.wrong:
            path, said = _blame(place, recording, right, alignment)
            lines = _reference_line(reference, alignment, path, place), _adapter_line(recording, path, adapter)
            return Fault(
                path,
                recording.kind(path),
                recording.kind(recording.caller(path)),
                said,
                *lines,
                place.result.ratio,
                place.result.relative,
                *place.result.where,
            )
        right.add(_digest(torch.cat(place.values)))
        right |= _packed_whole(place, right, recording, alignment)
    return None


def _blame(place: Compared, recording: Recording, right: set[int], alignment: Alignment) -> tuple[str, str]:
    """The module at fault, and what was seen."""
    point, value = place.point, torch.cat(place.values)
    caller = recording.caller(point.adapter)
    which = f"the {point.what} input" if point.what else "the input"
    if point.side == IN or _has_children(recording, point.adapter):
        inside = caller if point.side == IN else point.adapter
        maker = _maker(value, inside, recording, right, alignment)
        if maker is not None:
            return maker, "its inputs are the reference's and its output is not"
        packed = _packed(place, inside, recording, alignment)
        if packed is not None:
            return packed, f"its columns are in another order than attention takes them ({which} of {point.adapter})"
        if point.side == IN:
            return inside, f"its modules are right so far, and what it makes {which} of {point.adapter} of is not"
        return inside, "its modules are right, and what it makes of them is not"
    if _given_wrong(point.adapter, recording, right):
        return caller, f"what it gives {point.adapter} beside the hidden states did not come out of a module"
    return point.adapter, "its inputs are the reference's and its output is not"


def _given_wrong(path: str, recording: Recording, right: set[int]) -> bool:
    """Whether a module's second input, such as experts' routing, is none of the values found right."""
    call = recording.calls[path]
    if len(call.inputs) < 2 or "norm" in recording.kind(path).lower() or recording.kind(path) == "Attention":
        return False
    return any(_digest(_flat(recording, given)) not in right for given in call.inputs[1:])


def _maker(
    value: torch.Tensor, inside: str, recording: Recording, right: set[int], alignment: Alignment, depth: int = 4
) -> str | None:
    """The module that only the adapter has, that returned this value and whose own inputs are right."""
    wanted = _digest(value)
    for path, call in recording.calls.items():
        known = alignment.reference_of(path) or recording.caller(path) != inside
        if known or not call.outputs or wanted not in {_digest(_flat(recording, out)) for out in call.outputs}:
            continue
        for given in call.inputs:
            flat = _flat(recording, given)
            if _digest(flat) in right or _is_sorted_part(flat, inside, recording, right):
                continue
            return _maker(flat, inside, recording, right, alignment, depth - 1) if depth else None
        return path
    return None


def _is_sorted_part(value: torch.Tensor, inside: str, recording: Recording, right: set[int]) -> bool:
    """Whether a value is a run of columns of a right projection whose rows the adapter sorts into such runs."""
    width = value.shape[1]
    for path in recording.sorted_rows:
        if path.startswith(f"{inside}."):
            output = _flat(recording, recording.calls[path].outputs[0])
            starts = range(0, output.shape[1] - width + 1, width)
            if _digest(output) in right and any(torch.equal(output[:, at : at + width], value) for at in starts):
                return True
    return False


def _packed(place: Compared, inside: str, recording: Recording, alignment: Alignment) -> str | None:
    """The projection, packed in the reference as well, whose output's columns this value is: not the right ones.

    A query or key that should have been rotated since is no sign of their order.
    """
    value, rotary = torch.cat(place.values), f"{inside}.rotary_emb"
    if rotary in recording.calls and place.point.adapter != rotary and place.point.what != "value":
        return None
    for path, call in recording.calls.items():
        partners = [partner for partner in alignment.partners.values() if partner.path == path]
        if recording.caller(path) != inside or recording.kind(path) != "QKVParallelLinear" or len(partners) != 1:
            continue
        output, width = _flat(recording, call.outputs[0]), value.shape[1]
        starts = range(0, output.shape[1] - width + 1, width)
        if any(torch.equal(output[:, start : start + width], value) for start in starts):
            return path
    return None


def _packed_whole(place: Compared, right: set[int], recording: Recording, alignment: Alignment) -> set[int]:
    """A packed projection's whole output, once all of its parts are right."""
    path = place.point.adapter
    columns = [partner.columns for partner in alignment.partners.values() if partner.path == path and partner.columns]
    if place.point.side == IN or len(columns) < 2:
        return set()
    whole = _flat(recording, recording.calls[path].outputs[0])
    if all(_digest(whole[:, begin:end]) in right for begin, end in columns):
        return {_digest(whole)}
    return set()


def _flat(recording: Recording, tensor: torch.Tensor) -> torch.Tensor:
    """A recorded tensor's rows in the order in which requests are compared."""
    return torch.cat([tensor[recording.rows(request)].flatten(1) for request in recording.requests])


def _digest(tensor: torch.Tensor) -> int:
    return hash(tensor.contiguous().view(torch.uint8).numpy().tobytes())


def _has_children(recording: Recording, path: str) -> bool:
    return any(other.startswith(f"{path}.") for other in recording.calls)


def _reference_line(model: nn.Module, alignment: Alignment, path: str, place: Compared) -> str:
    """Where the reference computes it; of a module that only the adapter has, the caller's ``forward``."""
    name = place.point.reference if place.point.adapter == path else alignment.reference_of(path)
    while path and not name:
        path = path.rpartition(".")[0]
        name = alignment.reference_of(path)
    kind = type(model.get_submodule(name))
    try:
        if kind.__module__.startswith("torch."):  # one of torch's: where it is built says more
            caller, _, attribute = name.rpartition(".")
            owner = type(model.get_submodule(caller))
            lines, first = inspect.getsourcelines(owner)
            built = (at for at, text in enumerate(lines, first) if f"self.{attribute}" in text.partition("=")[0])
            return f"{inspect.getfile(owner)}:{next(built, first)}"
        return f"{inspect.getfile(kind)}:{inspect.getsourcelines(kind.forward)[1]}"
    except (OSError, TypeError):
        return ""


def _adapter_line(recording: Recording, path: str, adapter: Path | None) -> str:
    """Where the adapter builds the module, if its class is the engine's, or where it defines it."""
    definition = recording.definitions.get(path)
    if adapter is None or definition is None:
        return ""
    if Path(definition.file).name == adapter.name:
        return f"{adapter}:{definition.line}"
    caller, attribute = recording.kind(recording.caller(path)), path.rpartition(".")[2]
    for owner in ast.parse(adapter.read_text(encoding="utf-8")).body:
        if isinstance(owner, ast.ClassDef) and owner.name == caller:
            for node in ast.walk(owner):
                if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and node.attr == attribute:
                    return f"{adapter}:{node.lineno}"
    return ""

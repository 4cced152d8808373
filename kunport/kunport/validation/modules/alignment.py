"""Which module of the adapter does the work of which module of the reference.

The adapter's own map of the checkpoint's names decides: it says which of its parameters a tensor is loaded into, hence
which modules belong together, through renamed modules and packed projections. Modules without tensors keep their place
below the modules that have some.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from kunport.validation.modules.recorder import HEAD
from kunport.validation.modules.recording import Recording

# Which part of a packed projection a module is, by its name: what the adapter says of it is to be judged.
_PARTS = {"q_proj": "q", "k_proj": "k", "v_proj": "v", "gate_proj": "0", "up_proj": "1"}


@dataclass(frozen=True, slots=True)
class Partner:
    """The module of the adapter that does the work of a reference's.

    Attributes:
        path: in the adapter.
        columns: which of its output's columns are this module's; None for all.
        ordered: False where the adapter sorts the rows of the weight: the same columns in another order.
    """

    path: str
    columns: tuple[int, int] | None = None
    ordered: bool = True


@dataclass(slots=True)
class Alignment:
    """The reference's module path -> its partner; and the other way round, for naming what is wrong."""

    partners: dict[str, Partner] = field(default_factory=dict)

    def reference_of(self, path: str) -> str:
        """The reference's path of an adapter's module, "" where it has none."""
        return next((name for name, partner in self.partners.items() if partner.path == path), "")


def align(model: nn.Module, recording: Recording) -> Alignment:
    """Pair the modules of the reference with those that were recorded."""
    modules = dict(model.named_modules())
    votes: dict[str, Counter[str]] = {}
    parts: dict[str, dict[str, str]] = {}
    for name, (target, part) in recording.names.items():
        path, place = name.rpartition(".")[0], target.rpartition(".")[0]
        # A weight says more than what is kept beside it, such as a router's correction.
        votes.setdefault(path, Counter())[place] += 1 + 2 * name.endswith(".weight")
        if part:
            parts.setdefault(place, {})[_PARTS.get(path.rpartition(".")[2], part)] = path
    result = Alignment()
    pairs = {path: counted.most_common(1)[0][0] for path, counted in votes.items()}
    for path, place in _with_callers(pairs).items():
        if path in modules and place in recording.calls:
            ordered = place not in recording.sorted_rows
            result.partners[path] = Partner(place, _columns(modules, parts.get(place, {}), path), ordered)
    for path in modules:
        call = recording.calls.get(path)
        # An activation of the engine's may multiply as well: gate and up in, their product out.
        if call and call.inputs and call.outputs and call.inputs[0].shape == call.outputs[0].shape:
            result.partners.setdefault(path, Partner(path))
    output: Any = getattr(model, "get_output_embeddings", None)
    head = None if output is None else output()
    for path, module in modules.items():
        if module is head and HEAD in recording.calls:
            result.partners[path] = Partner(HEAD)
    return result


def _with_callers(pairs: dict[str, str]) -> dict[str, str]:
    """The pairs, and their parents', grandparents', ... as long as both have some."""
    found: dict[str, Counter[str]] = {path: Counter({place: 1000}) for path, place in pairs.items()}
    for path, place in pairs.items():
        while "." in path and "." in place:
            path, place = path.rpartition(".")[0], place.rpartition(".")[0]
            found.setdefault(path, Counter())[place] += 1
    return {path: counted.most_common(1)[0][0] for path, counted in found.items()}


def _columns(modules: dict[str, nn.Module], parts: dict[str, str], path: str) -> tuple[int, int] | None:
    """The columns of a packed projection's output that are this module's, in the order q, k, v or 0, 1, ..."""
    if path not in parts.values():
        return None
    begin = 0
    for part in sorted(parts, key=lambda part: "qkv".find(part) if part in "qkv" else int(part)):
        width = _width(modules[parts[part]]) if parts[part] in modules else 0
        if parts[part] == path:
            return begin, begin + width
        begin += width
    return None


def _width(module: nn.Module) -> int:
    weight = getattr(module, "weight", None)
    found = getattr(module, "out_features", None)
    if isinstance(found, int):
        return found
    return int(weight.shape[0]) if isinstance(weight, torch.Tensor) else 0

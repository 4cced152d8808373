"""The layers of a built model, and what was called in each."""

from __future__ import annotations

import re
from dataclasses import dataclass

from torch import nn

from kunport.oracle.watch import Call, Record, Scores


@dataclass(slots=True, eq=False)
class Layer:
    """One decoder layer: its module path, its first call, and what ran inside that call."""

    path: str
    module: nn.Module
    call: Call
    calls: list[Call]
    scores: list[Scores]
    names: dict[nn.Module, str]

    def call_of(self, module: nn.Module) -> Call | None:
        """The first call of a module in this layer."""
        return next((call for call in self.calls if call.module is module), None)


def find_layers(model: nn.Module, record: Record) -> list[Layer]:
    """The called blocks of the outermost module lists, in order of their paths."""
    layers = []
    lists: list[str] = []
    for path, module in model.named_modules():
        if not isinstance(module, nn.ModuleList) or any(path.startswith(f"{outer}.") for outer in lists):
            continue
        lists.append(path)
        for name, block in module.named_children():
            call = next((call for call in record.calls if call.module is block), None)
            if call is not None and list(block.children()) and _keeps_width(call):
                layers.append(_layer(f"{path}.{name}", call, record))
    return sorted(layers, key=lambda layer: [int(part) if part.isdigit() else -1 for part in layer.path.split(".")])


def stacks_of(layers: list[Layer]) -> set[str]:
    """The paths of the module lists that the layers are in."""
    return {re.sub(r"\.\d+$", "", layer.path) for layer in layers}


def _keeps_width(call: Call) -> bool:
    return call.input is not None and call.result is not None and call.input.shape[-1] == call.result.shape[-1]


def _layer(path: str, call: Call, record: Record) -> Layer:
    calls = [each for each in record.calls if call.began < each.began < call.ended]
    scores = [each for each in record.scores if call.module in each.stack and call.began < each.at < call.ended]
    return Layer(path, call.module, call, calls, scores, {m: name for name, m in call.module.named_modules() if name})

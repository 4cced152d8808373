"""Puts a description together."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from kunport_codegen.expression import unwrap
from kunport_codegen.graph import Graph, Location
from kunport_codegen.recognition import recognize

from kunport.description import attention, experts, feedforward, norms, positions, residual, unnamed, vocabulary
from kunport.description.findings import Line, merge
from kunport.description.view import View, show

_GROUPS = {
    "attention": attention.describe,
    "positions": positions.describe,
    "norms": norms.describe,
    "MLP": feedforward.describe,
    "experts": experts.describe,
    "residual": residual.describe,
    "embeddings and head": vocabulary.describe,
    "operators without a name": unnamed.describe,
}


@dataclass(frozen=True, slots=True)
class Unknown:
    """An operation that is not understood or has no place in the engine yet: why, and where the source has it."""

    reason: str
    where: Location

    def __str__(self) -> str:
        return f"{self.where}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Description:
    """What a model is and does.

    Attributes:
        layers: number of decoder layers.
        parameters: number of elements of all parameters, shared ones once.
        groups: title -> lines; groups without lines are left out.
        unknowns: what stands in the way of an adapter, in order, once for each source line and reason.
        guards: configuration fields that the graph was specialised on.
        notes: what the analysis wants a reader to know.
    """

    architecture: str
    model_type: str
    layers: int
    parameters: int
    sources: dict[str, str]
    groups: dict[str, list[Line]]
    unknowns: list[Unknown]
    guards: list[str]
    notes: list[str]

    @property
    def understood(self) -> bool:
        return not self.unknowns

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON, verdict included."""
        return {"verdict": "understood" if self.understood else "not understood", **asdict(self)}


def describe(graph: Graph) -> Description:
    """The description of a model graph."""
    view = View(graph, recognize(graph))
    lines = {title: merge(group(view)) for title, group in _GROUPS.items()}
    shared = {path for path, _ in graph.tied}
    return Description(
        architecture=graph.architecture,
        model_type=graph.model_type,
        layers=view.depth,
        parameters=sum(
            math.prod(unwrap(size) for size in each.shape)
            for each in graph.parameters.values()
            if not each.buffer and each.path not in shared
        ),
        sources=graph.sources,
        groups={title: each for title, each in lines.items() if each},
        unknowns=unknowns_of(graph),
        guards=[f"{guard.expr} is {show(guard.outcome)}" for guard in graph.guards],
        notes=graph.notes,
    )


def unknowns_of(graph: Graph) -> list[Unknown]:
    """What the analysis did not understand, in order, once for each source line and reason."""
    return list(dict.fromkeys(Unknown(str(node.args[0]), node.where) for node in graph.unknowns()))

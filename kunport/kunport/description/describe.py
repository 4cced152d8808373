"""Puts a description together."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields
from typing import Any

from kunport_codegen.expression import unwrap
from kunport_codegen.graph import Graph, Location
from kunport_codegen.recognition import recognize
from kunport_codegen.recognition.index import Index

from kunport.description.findings import Line, merge
from kunport.description.lines import findings
from kunport.description.unnamed import unnamed
from kunport.variants.fact import Fact, ModelFacts
from kunport.variants.known import Nearest, find_nearest
from kunport.variants.model import Model
from kunport.variants.reading import facts_of
from kunport.variants.verdict import Verdict, judge

UNDERSTOOD, PARTLY_UNDERSTOOD, NOT_UNDERSTOOD = "understood", "partly understood", "not understood"


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
        groups: title -> lines, the facts in words; groups without lines are left out.
        unknowns: what stands in the way of an adapter, in order, once for each source line and reason.
        guards: configuration fields that the graph was specialised on.
        notes: what the analysis wants a reader to know.
        facts: what the model does, as data.
        runs: whether it runs in the engine, and how.
        nearest: the known model that it is most like.
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
    facts: ModelFacts | None = None
    runs: Verdict | None = None
    nearest: Nearest | None = None

    @property
    def understood(self) -> bool:
        return not self.unknowns

    @property
    def opaque(self) -> dict[str, Fact]:
        """Key -> fact, of those that are not known: one for each key."""
        return {key: fact for key, fact in self.facts.walk() if fact.reason} if self.facts is not None else {}

    @property
    def verdict(self) -> str:
        """``understood``; ``partly understood`` (every operation is read, but not every fact is known); or ``not``."""
        if self.unknowns:
            return NOT_UNDERSTOOD
        return PARTLY_UNDERSTOOD if self.opaque else UNDERSTOOD

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON, verdict included."""
        data = {"verdict": self.verdict}
        for field in fields(self):
            value = getattr(self, field.name)
            data[field.name] = value.as_dict() if hasattr(value, "as_dict") else _plain(value)
        return data


def _plain(value: Any) -> Any:
    if isinstance(value, Line | Unknown):
        return asdict(value)
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def describe(graph: Graph, *, judged: bool = True) -> Description:
    """The description of a model graph; without ``runs`` and ``nearest``, a third of the work, if not ``judged``."""
    index = Index(graph)
    recognised = recognize(graph, index)
    model = Model(graph, recognised, index)
    facts = facts_of(model)
    groups = {**findings(facts), "operators without a name": list(unnamed(model))}
    shared = {path for path, _ in graph.tied}
    return Description(
        architecture=graph.architecture,
        model_type=graph.model_type,
        layers=facts.model["layers"].value or 0,
        parameters=sum(
            math.prod(unwrap(size) for size in each.shape)
            for each in graph.parameters.values()
            if not each.buffer and each.path not in shared
        ),
        sources=graph.sources,
        groups={title: merge(each) for title, each in groups.items() if each},
        unknowns=unknowns_of(graph),
        guards=[f"{guard.expr} is {guard.outcome}" for guard in graph.guards],
        notes=graph.notes,
        facts=facts,
        runs=judge(graph, recognised) if judged else None,
        nearest=find_nearest(facts) if judged else None,
    )


def unknowns_of(graph: Graph) -> list[Unknown]:
    """What the analysis did not understand, in order, once for each source line and reason."""
    return list(dict.fromkeys(Unknown(str(node.args[0]), node.where) for node in graph.unknowns()))

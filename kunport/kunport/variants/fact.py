"""Facts as data: what a model does, key by key, and how sure that is."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from kunport_codegen.graph import Location

PROVED, DEPENDS, OPAQUE = "proved", "depends", "opaque"


@dataclass(frozen=True, slots=True)
class Fact:
    """What is known of one key.

    Attributes:
        value: plain data; None where the fact is opaque, and where the key's "not there" is null.
        where: the source line that decides it.
        fields: configuration paths that the value comes from, or that a decision on it read; without the index of a
            layer where they have an entry for each.
        reason: why the value cannot be told; empty where it can.
    """

    value: Any
    where: Location
    fields: tuple[str, ...] = ()
    reason: str = ""

    @property
    def status(self) -> str:
        """``proved`` by the source alone, ``depends`` on fields, or ``opaque``."""
        if self.reason:
            return OPAQUE
        return DEPENDS if self.fields else PROVED

    def as_dict(self) -> dict[str, Any]:
        """Plain data: ``value``, ``status``, ``where``, and ``fields`` or ``reason`` where there are any."""
        found: dict[str, Any] = {"value": self.value, "status": self.status}
        found["where"] = {"file": self.where.file, "line": self.where.line}
        if self.fields:
            found["fields"] = list(self.fields)
        if self.reason:
            found["reason"] = self.reason
        return found


Facts = dict[str, Fact]


def depending(facts: Facts, fields: Collection[str]) -> Facts:
    """Facts that depend on some more fields, as far as they can be told."""
    if not fields:
        return facts
    return {
        key: fact if fact.reason else replace(fact, fields=tuple(sorted({*fact.fields, *fields})))
        for key, fact in facts.items()
    }


@dataclass(frozen=True, slots=True)
class LayerKind:
    """Layers that do the same.

    ``stack`` is the path of the list that they stand in (``model.layers``), ``layers`` their indices in it.
    """

    stack: str
    layers: tuple[int, ...]
    facts: Mapping[str, Fact]


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """The facts of a model.

    ``model`` holds those of scope model, ``kinds`` those of its layers: the longest stack of layers first, kinds in
    the order of their first layer.
    """

    architecture: str
    model_type: str
    model: Mapping[str, Fact]
    kinds: tuple[LayerKind, ...]

    def layer(self, index: int) -> Mapping[str, Fact]:
        """The facts of one layer of the longest stack.

        Raises:
            IndexError: there is no such layer.
        """
        for kind in self.kinds:
            if kind.stack == self.kinds[0].stack and index in kind.layers:
                return kind.facts
        raise IndexError(f"no layer {index}")

    def walk(self) -> Iterator[tuple[str, Fact]]:
        """Every key with its fact: the model's, then those of each kind of layer."""
        yield from self.model.items()
        for kind in self.kinds:
            yield from kind.facts.items()

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON: ``architecture``, ``model_type``, ``model`` and ``layers``, a list of kinds."""
        return {
            "architecture": self.architecture,
            "model_type": self.model_type,
            "model": {key: fact.as_dict() for key, fact in self.model.items()},
            "layers": [
                {
                    "stack": kind.stack,
                    "layers": list(kind.layers),
                    "facts": {key: fact.as_dict() for key, fact in kind.facts.items()},
                }
                for kind in self.kinds
            ],
        }

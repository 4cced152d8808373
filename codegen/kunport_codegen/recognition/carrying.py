"""Facts of a layer carried over to the layers that repeat it."""

from __future__ import annotations

import dataclasses
from functools import cache
from typing import Any

from kunport_codegen.expression import Scalar
from kunport_codegen.facts import Facts, RopeTable

from .index import Index
from .repeats import Comparison, Repeats, Stretch


class NotCarriedError(Exception):
    """A fact reaches further than the layer that it was found in and what that reads."""


def carry(index: Index, repeats: Repeats, facts: Facts) -> Facts:
    """The facts of all layers, in order of execution, from those of the layers that repeat none.

    Raises:
        NotCarriedError: there is a fact of several layers at once.
    """
    found: dict[int, dict[str, list[Any]]] = {}
    names = [each.name for each in dataclasses.fields(facts)]
    for name in names:
        for fact in getattr(facts, name):
            owner = _owner(repeats, fact)
            if owner is not None:
                found.setdefault(owner.number, {}).setdefault(name, []).append(fact)
    carried: dict[str, list[Any]] = {name: list(getattr(facts, name)) for name in names}
    for lead, stretch in repeats.pairs:
        if lead.number in found:
            carrier = _Carrier(index, repeats, lead, stretch)
            for name, group in found[lead.number].items():
                carried[name].extend(map(carrier.fact, group))
    for name in names:
        if len(carried[name]) > len(getattr(facts, name)):
            carried[name].sort(key=lambda fact: index.order[fact.cos if isinstance(fact, RopeTable) else fact.output])
    return Facts(**carried)


def _owner(repeats: Repeats, fact: Any) -> Stretch | None:
    """The stretch that a fact lies in."""
    result = fact.cos if isinstance(fact, RopeTable) else fact.output
    owners = {repeats.owner[each][0] for each in (result, *fact.nodes) if each in repeats.owner}
    if len(owners) > 1:
        raise NotCarriedError
    return next(iter(owners), None)


class _Carrier:
    """Makes facts of one stretch those of another."""

    def __init__(self, index: Index, repeats: Repeats, one: Stretch, other: Stretch) -> None:
        self._repeats, self._one, self._other = repeats, one, other
        self._ids = dict(zip((*one.ids, *one.reads), (*other.ids, *other.reads), strict=True))
        self._frames = dict(zip(one.frames, other.frames, strict=True))
        self._comparison = Comparison(index, one, other)
        self._tables: dict[int, RopeTable] = {}

    def fact(self, fact: Any) -> Any:
        kind: Any = type(fact)
        changed = {name: getattr(self, how)(getattr(fact, name)) for name, how in plan_of(kind) if how}
        return dataclasses.replace(fact, **changed)

    def tensor(self, identifier: int | None) -> int | None:
        known = self._ids.get(identifier) if identifier is not None else None
        if known is None and identifier in self._repeats.owner:
            raise NotCarriedError
        return identifier if known is None else known

    def tensors(self, identifiers: frozenset[int]) -> frozenset[int | None]:
        return frozenset(map(self.tensor, identifiers))

    def frame(self, frame: int) -> int:
        return self._frames.get(frame, frame)

    def path(self, path: str | None) -> str | None:
        inside, rest = self._one.relative(path or "")
        return f"{self._other.path}{rest}" if inside else path

    def number(self, value: Any) -> Any:
        return Scalar(value.value, self._comparison.expression(value.expr)) if isinstance(value, Scalar) else value

    def named_tensors(self, tensors: dict[str, int]) -> dict[str, int | None]:
        return {name: self.tensor(identifier) for name, identifier in tensors.items()}

    def named_numbers(self, values: dict[str, Any]) -> dict[str, Any]:
        return {name: self.number(value) for name, value in values.items()}

    def table(self, table: RopeTable) -> RopeTable:
        """A table of the stretch is another in the other; one that all layers read stays the same object."""
        if table.cos not in self._ids:
            return table
        return self._tables.setdefault(id(table), self.fact(table))


# What facts hold, by annotation. Whole numbers are tensors: a count is a `Number`.
_HOW = {
    **dict.fromkeys(("int", "int | None"), "tensor"),
    **dict.fromkeys(("str", "str | None"), "path"),
    **dict.fromkeys(("Number", "Number | None"), "number"),
    "frozenset[int]": "tensors",
    "dict[str, int]": "named_tensors",
    **dict.fromkeys(("dict[str, Number]", "dict[str, Number | str | bool]"), "named_numbers"),
    "RopeTable": "table",
    "tuple[float, ...]": "",
    "bool": "",
    "float": "",
    "Location": "",
}


@cache
def plan_of(kind: Any) -> list[tuple[str, str]]:
    """The fields of a kind of fact, and how each is carried over; KeyError where one holds something else."""
    return [(each.name, "frame" if each.name == "frame" else _HOW[str(each.type)]) for each in dataclasses.fields(kind)]

"""Modules that were made the same way."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

from kunport_codegen.expression import Scalar
from kunport_codegen.graph import Module

_INDEXED = re.compile(r"\[\d+\]")
_COMPARED = [each.name for each in dataclasses.fields(Module) if each.name not in ("path", "attributes", "children")]


def made_alike(modules: Mapping[str, Module], one: str, other: str) -> bool:
    """Whether two modules and all inside them are equal, by path; whole numbers, such as a layer's own, may differ."""
    first, second = modules.get(one), modules.get(other)
    if first is None or second is None:
        return first is second
    names = ([each.rpartition(".")[2] for each in module.children] for module in (first, second))
    return (
        all(getattr(first, name) == getattr(second, name) for name in _COMPARED)
        and len({tuple(each) for each in names}) == 1
        and list(first.attributes) == list(second.attributes)
        and all(map(_alike, first.attributes.values(), second.attributes.values()))
        and all(made_alike(modules, *pair) for pair in zip(first.children, second.children, strict=True))
    )


def _alike(one: Any, other: Any) -> bool:
    if isinstance(one, Scalar) and isinstance(other, Scalar):  # facts name no place in a list
        return one.value == other.value and _INDEXED.sub("", str(one.expr)) == _INDEXED.sub("", str(other.expr))
    return one is other or type(one) is type(other) is int or bool(one == other)

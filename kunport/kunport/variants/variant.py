"""What a variant is: keys, how they are read, and examples that document it and test it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kunport.variants.fact import Fact

# What an example says of a key that does not apply.
ABSENT = "absent"

Found = Iterator[tuple[str, Fact]]


@dataclass(frozen=True, slots=True)
class Example:
    """A model in which a key has a value.

    Attributes:
        model: a model type of Transformers.
        value: what the key's fact says, or `ABSENT`.
        key: the key, with the name of a norm in its brackets; "" for the variant's only one.
        layer: index of the layer.
        fields: configuration paths that the value depends on; None to leave that open.
        config: fields that replace those of the default configuration.
    """

    model: str
    value: Any
    key: str = ""
    layer: int = 0
    fields: tuple[str, ...] | None = None
    config: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Variant:
    """Keys that are read together. The docstring of the module that defines it is its reference page.

    ``scope`` says what ``read`` takes: ``attention`` a `Site`, ``layer`` a `Layer`, ``model`` a `Model`, ``experts`` a
    layer and its `Experts`, ``norm`` a model and a `Norm` (keys then without ``norm[NAME].``), ``everywhere`` a model
    and one of its layers, or None for what lies outside of them. ``keys`` maps each key to what its value means.
    """

    keys: Mapping[str, str]
    scope: str
    read: Callable[..., Found]
    examples: tuple[Example, ...]

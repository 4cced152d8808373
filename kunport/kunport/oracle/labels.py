"""Labels: what the oracle knows of a model, as plain data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Scope:
    """The labels of one layer or of the model outside its layers.

    Attributes:
        values: fact key -> value. JSON.
        also: fact key -> other values that say the same of this model (falcon's one key-value head makes rows that are
            both concatenated and grouped).
        absent: fact key or group of keys -> why the oracle cannot tell.
    """

    values: dict[str, Any] = field(default_factory=dict)
    also: dict[str, list[Any]] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)

    def label(self, key: str, value: Any, *also: Any) -> None:
        """Label ``key``; ``also`` are values that are right as well."""
        self.values[key] = value
        if others := [other for other in also if other != value]:
            self.also[key] = others

    def skip(self, key: str, reason: str) -> None:
        """Say why there is no label; an earlier reason stays."""
        self.absent.setdefault(key, reason)

    def accepts(self, key: str) -> list[Any]:
        """Every value that is right for a labelled key."""
        return [self.values[key], *self.also.get(key, [])]


@dataclass(slots=True)
class Labels:
    """The labels of one case.

    Attributes:
        layers: the layer's module path -> its labels, in order of the module tree.
        config: the configuration of the model that was built, as a checkpoint stores it.
        problem: why the case has no labels at all.
    """

    case: str
    config: dict[str, Any] = field(default_factory=dict)
    layers: dict[str, Scope] = field(default_factory=dict)
    model: Scope = field(default_factory=Scope)
    problem: str = ""

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Labels:
        """Labels from what `dataclasses.asdict` made of them."""
        layers = {path: Scope(**scope) for path, scope in data["layers"].items()}
        return cls(data["case"], data["config"], layers, Scope(**data["model"]), data["problem"])

"""What the probes ask of the built model's configuration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

_LIMITS = ("window", "chunk", "span")


@dataclass(frozen=True, slots=True)
class ConfigFields:
    """Every number in a configuration, the rope types that it names, and the numbers that could limit an attention."""

    numbers: tuple[float, ...] = ()
    rope_types: tuple[str, ...] = ()
    limits: tuple[int, ...] = ()


def read_fields(config: Any) -> ConfigFields:
    """The fields anywhere in a configuration."""
    numbers: list[float] = []
    rope_types: list[str] = []
    limits: list[int] = []

    def visit(name: str, value: Any) -> None:
        if isinstance(value, dict):
            for key, item in value.items():
                visit(str(key), item)
        elif isinstance(value, list | tuple):
            for item in value:
                visit(name, item)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            numbers.append(float(value))
            if any(word in name for word in _LIMITS) and not name.endswith("layers"):
                limits.append(int(value))
        elif name in ("rope_type", "type") and isinstance(value, str):
            rope_types.append(value)

    visit("", config.to_dict())
    return ConfigFields(tuple(numbers), tuple(dict.fromkeys(rope_types)), tuple(limits))

"""Numbers that no configuration has: they would only exhaust what works with them."""

from __future__ import annotations

from typing import Any

from kunport.errors import KunportError

LARGEST = 1 << 40  # a thousand times the longest vocabulary, sequence or layer there is


def check_numbers(config: dict[str, Any]) -> None:
    """Refuses whole numbers beyond `LARGEST`, at any depth.

    Raises:
        KunportError: there is one; its field is named.
    """
    for path, value in _numbers(config, ""):
        if abs(value) > LARGEST:
            raise KunportError(f"The field {path} is a number of {len(str(abs(value)))} digits.", "Correct it.")


def _numbers(value: Any, path: str) -> list[tuple[str, int]]:
    if isinstance(value, int):
        return [(path, value)]
    if isinstance(value, dict):
        return [each for key, held in value.items() for each in _numbers(held, f"{path}.{key}" if path else str(key))]
    if isinstance(value, list | tuple):
        return [each for at, held in enumerate(value) for each in _numbers(held, f"{path}[{at}]")]
    return []

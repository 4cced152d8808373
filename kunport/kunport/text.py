"""How figures and foreign strings are written."""

from __future__ import annotations

import math
import unicodedata

_STEERING = {"Cc", "Cf", "Cs", "Zl", "Zp"}  # control, direction and joining, surrogates, line and paragraph separators


def visible(value: object) -> str:
    """A string that may come from a model, with every character that could steer a reader's display as an escape."""
    text = str(value)
    if text.isprintable():
        return text
    return "".join(
        character.encode("unicode_escape").decode() if unicodedata.category(character) in _STEERING else character
        for character in text
    )


def scientific(value: float | None) -> str:
    """``4.8e-06``, and words where there is no such number."""
    if value is None:
        return "–"
    if math.isnan(value):
        return "not a number"
    return "0" if value == 0 else f"{value:.1e}"


def number_of_bytes(value: int | None) -> str:
    """``1.6 MiB``."""
    if value is None:
        return "–"
    power = min((max(value, 1).bit_length() - 1) // 10, 4)
    size, unit = value / 1024**power, ("B", "KiB", "MiB", "GiB", "TiB")[power]
    return f"{size:.0f} {unit}" if power == 0 or size >= 100 else f"{size:.1f} {unit}"


def seconds(value: float | None) -> str:
    """``0.4 s``, ``2 min 05 s``."""
    if value is None:
        return ""
    if value < 99.95:
        return f"{value:.1f} s"
    return f"{int(value) // 60} min {int(value) % 60:02d} s"


def count(value: int) -> str:
    """``98,688``."""
    return f"{value:,}"


def counted(number: int, noun: str, one: str, many: str) -> str:
    """``1 fact is``, ``2 facts are``: a count with its noun, and the word for one of them or for several."""
    return f"{number} {noun} {one}" if number == 1 else f"{number} {noun}s {many}"


def parameters(value: int) -> str:
    """``722 k``, ``135 M``, ``1.24 B``."""
    for size, unit in ((10**9, "B"), (10**6, "M"), (10**3, "k")):
        if value >= size:
            return f"{value / size:.3g} {unit}" if value < 10**15 else f"{value // size:,} {unit}"
    return str(value)

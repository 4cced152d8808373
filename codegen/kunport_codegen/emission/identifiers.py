"""Text from sources and configurations on its way into code: only as checked names or as escaped literals."""

from __future__ import annotations

import keyword
import re
from math import isfinite
from typing import Any


class EmissionError(Exception):
    """Something would have to be written into code that has no place there."""


def identifier(text: str) -> str:
    """The text, if it is a plain ASCII Python name.

    Raises:
        EmissionError: it is not.
    """
    if not (text.isascii() and text.isidentifier()) or keyword.iskeyword(text):
        raise EmissionError(f"{text!r} is no name that can stand in code")
    return text


def module_name(model_type: str) -> str:
    """A model type as the name of a module: ``-`` and ``.`` become ``_``."""
    return identifier(re.sub(r"[-.]", "_", model_type))


def literal(value: Any) -> str:
    """A plain Python constant as source.

    Raises:
        EmissionError: it is no bool, number, string, None or tuple of finite numbers.
    """
    if (isinstance(value, float) and value != value) or value in (float("inf"), float("-inf")):
        return f'float("{value}")'
    if value is None or isinstance(value, bool | int | float | str):
        return repr(value)
    if isinstance(value, tuple) and all(type(item) in (int, float) and isfinite(item) for item in value):
        return repr(value)
    raise EmissionError(f"{value!r} is no plain constant")


_PART = re.compile(
    r"(?:^|\.)(?P<name>[A-Za-z_]\w*)"
    r"|\[(?P<index>\d+|layer_idx(?: % \d+)?|str\(layer_idx\)(?:\.zfill\(\d+\))?)\]"
    r"|\['(?P<key>[^'\\\n]*)'\]"
    r"|\[config\.(?P<field>[A-Za-z_]\w*)\[layer_idx\]\]"
)


def path(text: str) -> str:
    """A path below a configuration (``rope_parameters['rope_theta']``) as source, every part checked.

    Raises:
        EmissionError: it is no such path.
    """
    written, place = "", 0
    for part in _PART.finditer(text):
        if part.start() != place:
            break
        place = part.end()
        if part["name"]:
            written += f".{identifier(part['name'])}"
        elif part["index"]:
            written += f"[{part['index']}]"
        elif part["field"]:
            written += f"[config.{identifier(part['field'])}[layer_idx]]"
        else:
            written += f"[{literal(part['key'])}]"
    if place != len(text) or not text:
        raise EmissionError(f"{text!r} is no path below a configuration")
    return written.removeprefix(".")

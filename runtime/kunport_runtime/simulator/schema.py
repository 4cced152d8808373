"""What torch 2.5, which the vendor's torch is built from, does not declare as a custom operator."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable
from typing import Any

from kunport_runtime.simulator.rules import require


def hold_schema(function: Callable[..., Any]) -> None:
    """Hold the signature of a function that is to be a custom operator against torch 2.5.

    Raises:
        VendorRuleError: it has ``T | None`` or ``list[int]``, where ``Optional[T]`` and ``List[int]`` are understood.
    """
    hints = typing.get_type_hints(function)
    for name in inspect.signature(function).parameters:
        hint = hints.get(name)
        written_new = isinstance(hint, types.UnionType | types.GenericAlias)
        require("schema_types", not written_new, f"{name} of {function.__name__} is {hint}")

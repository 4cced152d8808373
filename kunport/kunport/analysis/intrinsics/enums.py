"""Enumerations. Those mixed with strings or numbers also compare as these."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kunport.analysis.interpreter import enums
from kunport.analysis.interpreter.operations import plain
from kunport.analysis.intrinsics.registry import member, native_class
from kunport.analysis.values import Instance, Value, is_subclass

if TYPE_CHECKING:
    from kunport.analysis.interpreter import Interpreter

enum_class = native_class(enums.ENUM)
native_class(enums.AUTO)
for _name in ("IntEnum", "StrEnum", "Flag", "IntFlag"):
    native_class(f"enum.{_name}", enum_class)
_MIXED = ("builtins.str", "builtins.int", "builtins.float", "enum.IntEnum", "enum.StrEnum")


@member(enum_class, "__eq__", raw=True)
def _eq(interpreter: Interpreter, this: Instance, other: Value) -> Value:
    if isinstance(other, Instance):
        return this is other
    mixed = any(is_subclass(this.cls, name) for name in _MIXED)
    return bool(mixed and plain(this.attributes["value"]) == plain(other))

"""Objects that hold whatever they are given: namespaces, and dictionaries whose keys have declared types."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kunport.analysis.intrinsics.configurations import configuration
from kunport.analysis.intrinsics.registry import NAMES, member, native_class
from kunport.analysis.values import Instance, Value

if TYPE_CHECKING:
    from kunport.analysis.interpreter import Interpreter

namespace = native_class("types.SimpleNamespace")
NAMES["argparse.Namespace"] = namespace
typed_dict = native_class("typing.TypedDict", configuration)
NAMES["typing_extensions.TypedDict"] = typed_dict


@member(namespace, "__init__", raw=True)
@member(typed_dict, "__init__", raw=True)
def _fill(interpreter: Interpreter, this: Instance, values: Value = None, **named: Value) -> None:
    given = {} if values is None else interpreter.mapping(values)
    this.attributes.update({interpreter.pin(name): each for name, each in given.items()}, **named)

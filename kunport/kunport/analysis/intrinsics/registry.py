"""The table of names that the analysis gives a meaning of its own, instead of reading their source.

A name is dotted as its definition is (``torch.nn.functional.dropout``), or ``builtins.NAME``. What the table lacks is
read from source where there is source; else it is opaque, and what depends on it is unknown.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from kunport_codegen.graph import DType

from kunport.analysis.shapes import RULES, canonical
from kunport.analysis.values import Device, Native, NativeClass, Opaque, Value

NAMES: dict[str, Value] = {}
TENSOR_MEMBERS: dict[str, Native] = {}

# Packages whose names are looked up in the table and never as files.
PACKAGES = {
    *("builtins", "torch", "math", "functools", "itertools", "collections", "copy", "typing", "typing_extensions"),
    *("dataclasses", "warnings", "logging", "os", "sys", "contextlib", "enum", "abc", "numpy", "operator", "inspect"),
    *("importlib", "re", "random", "time", "types", "einops", "huggingface_hub", "packaging"),
}
_DTYPES = {
    **{name: name for name in ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32")},
    "float64": "float64",
    "complex64": "complex64",
    "complex128": "complex128",
    "half": "float16",
    "float": "float32",
    "double": "float64",
    "short": "int16",
    "int": "int32",
    "long": "int64",
    "float8_e4m3fn": "float8_e4m3fn",
    "float8_e5m2": "float8_e5m2",
    "cfloat": "complex64",
}
# Torch's functions live in several modules under the same name.
_TORCH_MODULES = ("torch", "torch.nn.functional", "torch.special", "torch.linalg", "torch.Tensor", "torch.fft")


def native(
    *names: str, raw: bool = False, lazy: bool = False
) -> Callable[[Callable[..., Value]], Callable[..., Value]]:
    """Registers a function under dotted names; see `Native` for the options."""

    def register(function: Callable[..., Value]) -> Callable[..., Value]:
        for name in names:
            NAMES[name] = Native(name, function, raw, lazy)
        return function

    return register


def tensor_member(*names: str) -> Callable[[Callable[..., Value]], Callable[..., Value]]:
    """Registers a method of tensors that is more than the operator of its name."""

    def register(function: Callable[..., Value]) -> Callable[..., Value]:
        for name in names:
            TENSOR_MEMBERS[name] = Native(f"torch.Tensor.{name}", function)
        return function

    return register


def native_class(name: str, *bases: NativeClass) -> NativeClass:
    """Registers a class; `member` adds to it."""
    cls = NAMES[name] = NativeClass(name, bases)
    return cls


def member(cls: NativeClass, *names: str, raw: bool = False) -> Callable[[Callable[..., Value]], Callable[..., Value]]:
    def register(function: Callable[..., Value]) -> Callable[..., Value]:
        for name in names:
            cls.members[name] = Native(f"{cls.name}.{name}", function, raw)
        return function

    return register


def external(dotted: str) -> Value | None:
    """The value of a name that is not read from source; None where its source may be looked for."""
    if dotted in NAMES:
        return NAMES[dotted]
    package, _, last = dotted.partition(".")[0], *dotted.rpartition(".")[1:]
    if package == "transformers":
        return _availability(last)
    if package not in PACKAGES:
        return None
    return _torch(dotted) or Opaque(dotted, "not known to the analysis")


def _availability(name: str) -> Value | None:
    """Transformers asks for packages and versions with ``is_*``: a recent torch is there, nothing else."""
    if name.startswith("is_") and name.endswith(("_available", "_less_or_equal", "_greater_or_equal")):
        there = name in ("is_torch_available", "is_torch_flex_attn_available", "is_torch_greater_or_equal")
        return Native(name, lambda interpreter, *args, **kwargs: there)
    return None


def _torch(dotted: str) -> Value | None:
    module, _, name = dotted.rpartition(".")
    if module == "torch" and name in _DTYPES:
        return DType(_DTYPES[name])
    if module in _TORCH_MODULES and canonical(name) in RULES:
        return operator(name, dotted)
    return None


@cache
def operator(name: str, dotted: str = "") -> Native:
    """The function that emits torch's operator of this name, the same one each time."""

    def call(interpreter: Any, *args: Value, **kwargs: Value) -> Value:
        return interpreter.operator(name, args, kwargs)

    return Native(dotted or f"torch.{name}", call)


DEVICE = Device()

"""einops: patterns of named axes, as the reshapes, permutations and reductions that they stand for."""

from __future__ import annotations

import string
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from kunport_codegen.expression import unwrap

from kunport.analysis.interpreter.containers import product
from kunport.analysis.interpreter.signals import NotUnderstoodError
from kunport.analysis.intrinsics.modules import module
from kunport.analysis.intrinsics.registry import member, native, native_class
from kunport.analysis.shapes.sizes import quotient
from kunport.analysis.values import Instance, Tensor, Value

if TYPE_CHECKING:
    from kunport.analysis.interpreter import Interpreter

_REDUCTIONS = {"mean": "mean", "sum": "sum", "max": "amax", "min": "amin", "prod": "prod"}
_REST = "..."

# The axes of each dimension: one name, several in parentheses, none for a dimension of size 1.
Side = list[list[str]]


def _side(text: str, rank: int | None = None) -> Side:
    """One side of a pattern. ``...`` stands for as many dimensions as make it ``rank`` dimensions."""
    dimensions: Side = []
    inside: list[str] | None = None
    for word in text.replace("(", " ( ").replace(")", " ) ").replace("…", _REST).split():
        if word == "(":
            inside = []
            dimensions.append(inside)
        elif word == ")":
            inside = None
        elif inside is not None:
            inside += [word] * (word != "1")
        else:
            dimensions.append([word] if word != "1" else [])
    if rank is None or not any(_REST in each for each in dimensions):
        return dimensions
    return _spread(dimensions, rank - len(dimensions) + 1)


def _spread(dimensions: Side, count: int) -> Side:
    rest = [f"{_REST}{position}" for position in range(count)]
    spread: Side = []
    for each in dimensions:
        if each == [_REST]:
            spread += [[name] for name in rest]
        else:
            spread.append([part for name in each for part in (rest if name == _REST else [name])])
    return spread


def _flat(side: Side) -> list[str]:
    return [name for dimension in side for name in dimension]


def _sizes(interpreter: Interpreter, x: Tensor, left: Side, given: dict[str, Value]) -> dict[str, Value]:
    """The size of each axis: given, or what the dimension leaves for it."""
    if len(left) != len(x.type.shape):
        raise NotUnderstoodError(f"a pattern of {len(left)} dimensions for a tensor of {len(x.type.shape)}")
    sizes = dict(given)
    for dimension, size in zip(left, x.type.shape, strict=True):
        sizes.update({name: int(name) for name in dimension if name.isdigit()})
        open_axes = [name for name in dimension if name not in sizes]
        if len(open_axes) > 1:
            raise NotUnderstoodError(f"a pattern that leaves the sizes of {' and '.join(open_axes)} open")
        if open_axes:
            known = tuple(sizes[name] for name in dimension if name != open_axes[0])
            sizes[open_axes[0]] = quotient(size, product(known)) if known else size
    return sizes


def _transform(interpreter: Interpreter, x: Value, pattern: str, given: dict[str, Value], reduction: str = "") -> Value:
    if isinstance(x, list | tuple):
        x = interpreter.operator("stack", (list(x),), {})
    if not isinstance(x, Tensor):
        return interpreter.unknown("a pattern applied to a value that is not known", x)
    before, _, after = pattern.partition("->")
    rank = len(x.type.shape)
    left = _side(before, rank)
    right = _spread(_side(after), rank - len(_side(before)) + 1)
    sizes = _sizes(interpreter, x, left, given)
    axes, wanted = _flat(left), _flat(right)
    x = _reshaped(interpreter, x, [[name] for name in axes], left, sizes)
    if gone := [place for place, name in enumerate(axes) if name not in wanted]:
        if reduction not in _REDUCTIONS:
            raise NotUnderstoodError(f"a pattern that drops axes ({pattern})")
        x = interpreter.operator(_REDUCTIONS[reduction], (x, tuple(gone)), {})
        axes = [name for name in axes if name in wanted]
    kept = [name for name in wanted if name in axes]
    if kept != axes:
        x = interpreter.operator("permute", (x, tuple(axes.index(name) for name in kept)), {})
    if len(kept) != len(wanted):
        sizes.update({name: int(name) for name in wanted if name.isdigit() and name not in sizes})
        shape = tuple(sizes[name] if name in kept else 1 for name in wanted)
        x = interpreter.operator("reshape", (x, shape), {})
        x = interpreter.operator("expand", (x, tuple(sizes[name] for name in wanted)), {})
    return _reshaped(interpreter, x, right, [[name] for name in wanted], sizes)


def _reshaped(interpreter: Interpreter, x: Value, to: Side, now: Side, sizes: dict[str, Value]) -> Value:
    if to == now:
        return x
    shape = tuple(product(tuple(sizes[name] for name in dimension)) for dimension in to)
    return interpreter.operator("reshape", (x, shape), {})


@native("einops.rearrange", "einops.repeat")
def _rearrange(interpreter: Interpreter, tensor: Value, pattern: Value, **sizes: Value) -> Value:
    return _transform(interpreter, tensor, pattern, sizes)


@native("einops.reduce")
def _reduce(interpreter: Interpreter, tensor: Value, pattern: Value, reduction: Value, **sizes: Value) -> Value:
    return _transform(interpreter, tensor, pattern, sizes, reduction)


@native("einops.einsum")
def _einsum(interpreter: Interpreter, *operands: Value) -> Value:
    """Torch's operator, with a letter for each named axis."""
    *tensors, pattern = operands
    letters: dict[str, str] = {}

    def short(side: str) -> str:
        spare: Iterator[str] = (each for each in string.ascii_letters if each not in letters.values())
        words = side.replace(_REST, f" {_REST} ").split()
        return "".join(each if each == _REST else letters.get(each) or _learn(each, spare) for each in words)

    def _learn(name: str, spare: Iterator[str]) -> str:
        letters[name] = next(spare)
        return letters[name]

    before, _, after = pattern.partition("->")
    equation = ",".join(map(short, before.split(","))) + "->" + short(after)
    return interpreter.operator("einsum", (equation, *tensors), {})


@native("einops.parse_shape")
def _parse_shape(interpreter: Interpreter, x: Tensor, pattern: Value) -> Value:
    names = pattern.split()
    return {name: size for name, size in zip(names, x.type.shape, strict=True) if name != "_"}


def _layer(name: str, transform: Callable[..., Value]) -> None:
    cls = native_class(f"einops.layers.torch.{name}", module)

    @member(cls, "__init__")
    def init(interpreter: Interpreter, this: Instance, *pattern: Value, **sizes: Value) -> None:
        this.attributes.update(pattern=tuple(map(unwrap, pattern)), sizes=sizes)

    @member(cls, "forward")
    def forward(interpreter: Interpreter, this: Instance, x: Value) -> Value:
        return transform(interpreter, x, *this.attributes["pattern"], **this.attributes["sizes"])


_layer("Rearrange", _rearrange)
_layer("Reduce", _reduce)

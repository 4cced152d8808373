"""The table of operators: which rule tells an operator's result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from kunport_codegen.expression import Scalar, symbols_of, unwrap

from .tensor import Result, ShapeError, TensorType

Rule = Callable[..., Result]
AnyRule = TypeVar("AnyRule", bound=Rule)

RULES: dict[str, Rule] = {}
_DATA_DEPENDENT: set[str] = set()

# Other names of the same operators.
ALIASES = {
    "absolute": "abs",
    "clip": "clamp",
    "concat": "cat",
    "concatenate": "cat",
    "divide": "div",
    "true_divide": "div",
    "greater": "gt",
    "greater_equal": "ge",
    "less": "lt",
    "less_equal": "le",
    "moveaxis": "movedim",
    "multiply": "mul",
    "negative": "neg",
    "not_equal": "ne",
    "subtract": "sub",
    "swapaxes": "transpose",
    "swapdims": "transpose",
    "as_tensor": "tensor",
    "scalar_tensor": "tensor",
}
# Rules name what torch names after a builtin otherwise.
_KEYWORDS = {
    "axis": "dim",
    "keepdims": "keepdim",
    **dict.fromkeys(("input", "self", "elements"), "x"),
    "ord": "p",
    "min": "low",
    "max": "high",
    "sorted": "ordered",
    "sizes": "parts",
    "batch1": "mat1",
    "batch2": "mat2",
}
# Arguments that say where a tensor lies or how it is made, not what it is.
_IRRELEVANT = {
    *("device", "layout", "requires_grad", "pin_memory", "memory_format", "non_blocking", "copy"),
    *("generator", "inplace", "training", "out", "_stacklevel"),
}


def rule(names: str, *, data_dependent: bool = False) -> Callable[[AnyRule], AnyRule]:
    """Registers a rule under names separated by blanks.

    A rule takes the operator's arguments as torch names them. A data-dependent one also takes ``symbol``, the
    name for a size that only the data tell.
    """

    def register(function: AnyRule) -> AnyRule:
        for name in names.split():
            RULES[name] = function
            if data_dependent:
                _DATA_DEPENDENT.add(name)
        return function

    return register


def canonical(op: str) -> str:
    """The name that an operator is known by here: without module, without the in-place underscore."""
    name = op.rpartition(".")[2]
    name = name.removesuffix("_") or name
    return ALIASES.get(name, name)


def infer(op: str, args: tuple[Any, ...], kwargs: dict[str, Any], *, symbol: str = "data") -> Result:
    """Shape and dtype of an operator's result, or of each of its results.

    Args:
        op: torch's name; see the registered `RULES`.
        args: a `TensorType` where the operator takes a tensor, else scalars, plain values, ``DType``, slices,
            lists, ``Ellipsis`` and None.
        kwargs: the same, by torch's names.
        symbol: how to name a size that depends on data (the number of rows that ``nonzero`` finds).

    An operator written in place (``add_``) keeps the shape and the dtype of its first operand.

    Raises:
        ShapeError: there is no rule for the operator, or torch would refuse the arguments.
    """
    name = canonical(op)
    if name not in RULES:
        raise ShapeError(f"there is no shape rule for the operator {op}")
    named = {_KEYWORDS.get(key, key): held for key, held in kwargs.items() if key not in _IRRELEVANT}
    if name in _DATA_DEPENDENT:
        named["symbol"] = symbol
    try:
        result = RULES[name](*args, **named)
    except ShapeError as error:
        raise ShapeError(f"{op}: {error.reason}") from error
    except (AttributeError, IndexError, TypeError, ValueError) as error:
        raise ShapeError(f"{op}: arguments that its shape rule does not know ({error})") from error
    for each in (result,) if isinstance(result, TensorType) else result:
        for size in each.shape:
            counted = isinstance(size, Scalar) and symbols_of(size.expr)  # by the data: any number stands for it
            if unwrap(size) < 0 and not counted:
                raise ShapeError(f"{op}: a size of {unwrap(size)}")
    return args[0] if op.endswith("_") and isinstance(args[0], TensorType) else result

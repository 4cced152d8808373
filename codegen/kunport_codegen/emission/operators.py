"""Plain torch operators as source."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kunport_codegen.emission.identifiers import identifier, literal
from kunport_codegen.expression import unwrap
from kunport_codegen.graph import DType

# Precedences as Python's grammar has them; an atom or a call binds tightest.
ATOM = 12
_INFIX = {
    "add": ("+", 6),
    "sub": ("-", 6),
    "mul": ("*", 7),
    "div": ("/", 7),
    "floor_divide": ("//", 7),
    "remainder": ("%", 7),
    "matmul": ("@", 7),
    "pow": ("**", 9),
    "eq": ("==", 4),
    "ne": ("!=", 4),
    "lt": ("<", 4),
    "le": ("<=", 4),
    "gt": (">", 4),
    "ge": (">=", 4),
}
_FUNCTIONAL = {
    *("silu", "gelu", "elu", "selu", "celu", "leaky_relu", "mish", "softplus", "softsign", "hardsigmoid", "hardswish"),
    *("hardtanh", "logsigmoid", "pad", "relu6", "linear", "layer_norm", "rms_norm", "one_hot", "embedding"),
}
_PROPERTIES = frozenset(("T", "mT"))
_TORCH = frozenset(
    (
        *("cat", "stack", "einsum", "where", "addcmul", "maximum", "minimum", "arange", "full", "ones", "zeros"),
        *("full_like", "ones_like", "zeros_like"),
    )
)

# Writes an operand: a value, a size or a constant.
Write = Callable[[Any], tuple[str, int]]


def operator(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], write: Write) -> tuple[str, int]:
    """The operator applied to its operands: source and precedence.

    Raises:
        EmissionError: an operand cannot be written.
    """
    if name in _INFIX and len(args) == 2 and not kwargs:
        sign, precedence = _INFIX[name]
        left, right = (_bracketed(write(arg), precedence, side) for side, arg in enumerate(args))
        return f"{left} {sign} {right}", precedence
    if name == "neg":
        return f"-{_bracketed(write(args[0]), 8, 1)}", 8
    if name == "getitem":
        return f"{_bracketed(write(args[0]), ATOM, 0)}[{_index(args[1], write)}]", ATOM
    if name in _FUNCTIONAL:
        return f"nn.functional.{name}({_arguments(args, kwargs, write)})", ATOM
    if name in _TORCH:
        return f"torch.{name}({_arguments(args, kwargs, write)})", ATOM
    receiver = _bracketed(write(args[0]), ATOM, 0)
    if name in _PROPERTIES and len(args) == 1 and not kwargs:
        return f"{receiver}.{name}", ATOM
    return f"{receiver}.{identifier(name)}({_arguments(args[1:], kwargs, write)})", ATOM


def _bracketed(written: tuple[str, int], precedence: int, side: int) -> str:
    text, inner = written
    return f"({text})" if inner < precedence or (side == 1 and inner == precedence) else text


def _arguments(args: tuple[Any, ...], kwargs: dict[str, Any], write: Write) -> str:
    written = [write(arg)[0] for arg in args]
    return ", ".join([*written, *(f"{identifier(key)}={write(value)[0]}" for key, value in kwargs.items())])


def _index(index: Any, write: Write) -> str:
    """An index without leading whole axes beyond an ellipsis: ``[:, :, a:b]`` is ``[..., a:b]``."""
    items = list(index) if isinstance(index, tuple) else [index]
    whole = slice(None, None, None)
    texts = [_item(item, write) for item in items]
    leading = 0
    while leading < len(items) - 1 and items[leading] == whole:
        leading += 1
    if leading and None not in items:
        texts = ["...", *texts[leading:]]
    return ", ".join(texts)


def _item(item: Any, write: Write) -> str:
    if item is Ellipsis:
        return "..."
    if isinstance(item, slice):
        start, stop, step = ("" if part is None else write(part)[0] for part in (item.start, item.stop, item.step))
        return f"{start}:{stop}" + (f":{step}" if step else "")
    return write(item)[0]


def constant(value: Any, model_dtype: str) -> str:
    """A constant operand: a dtype, a list of sizes or a plain value."""
    if isinstance(value, DType):
        return model_dtype if value.name == "model" else f"torch.{identifier(value.name)}"
    return literal(unwrap(value))

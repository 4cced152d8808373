"""Scalars that remember where they came from.

A scalar read from a configuration is a value (``64``) and an expression (``config.hidden_size``).
Arithmetic on scalars keeps both, so that an adapter can be written with the expression and a
guard can name the field that a decision was taken on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from dataclasses import field as attribute
from typing import Any

# A step of a configuration path: ``.name``, ``['name']`` or ``[3]``.
_STEP = re.compile(r"\.?(\w+)|\[(?:'([^']*)'|\"([^\"]*)\"|(-?\d+))\]")
Plain = int | float | bool | str | None


@dataclass(frozen=True, slots=True)
class Expr:
    """A symbolic scalar: an operator over operands that are ``Expr`` or plain Python constants.

    ``op`` is one of

    - ``const``: ``args = (value,)``
    - ``field``: a configuration field, ``args = (path,)``; the path is Python syntax below
      ``config``, for example ``hidden_size`` or ``rope_parameters['rope_theta']``
    - ``symbol``: a size that is only known when the model runs, ``args = (name,)``; the names are
      ``batch`` and ``sequence`` (those of the token ids), ``past`` (tokens that are in the cache),
      and one name of its own for each size that depends on data
    - a name of `OPERATORS`.

    ``chosen`` are configuration paths that decided that this expression, or one in it, was taken rather than another
    one, as in ``a if config.flag else b``. They are no part of the value: expressions that differ in them are equal.
    """

    op: str
    args: tuple[Any, ...]
    chosen: frozenset[str] = attribute(default=frozenset(), compare=False, repr=False)

    def __post_init__(self) -> None:
        for operand in self.args:
            if type(operand) is Expr and operand.chosen:
                object.__setattr__(self, "chosen", self.chosen | operand.chosen)

    def __str__(self) -> str:
        return render(self)


@dataclass(frozen=True, slots=True)
class Scalar:
    """A plain value together with the expression it was computed by."""

    value: Plain
    expr: Expr

    def __repr__(self) -> str:
        return f"{self.value!r}«{self.expr}»"


def const(value: Plain) -> Expr:
    return Expr("const", (value,))


def field(path: str, value: Plain) -> Scalar:
    return Scalar(value, Expr("field", (path,)))


def symbol(name: str, value: int) -> Scalar:
    return Scalar(value, Expr("symbol", (name,)))


# Operator name -> (how Python writes it, its precedence, the function). Precedences follow Python's
# grammar: a higher number binds tighter. Calls have no infix form and bind tightest.
OPERATORS: dict[str, tuple[str, int, Callable[..., Any]]] = {
    "or": ("{} or {}", 1, lambda a, b: a or b),
    "and": ("{} and {}", 2, lambda a, b: a and b),
    "not": ("not {}", 3, lambda a: not a),
    "eq": ("{} == {}", 4, lambda a, b: a == b),
    "ne": ("{} != {}", 4, lambda a, b: a != b),
    "lt": ("{} < {}", 4, lambda a, b: a < b),
    "le": ("{} <= {}", 4, lambda a, b: a <= b),
    "gt": ("{} > {}", 4, lambda a, b: a > b),
    "ge": ("{} >= {}", 4, lambda a, b: a >= b),
    "is": ("{} is {}", 4, lambda a, b: a is b),
    "is_not": ("{} is not {}", 4, lambda a, b: a is not b),
    "in": ("{} in {}", 4, lambda a, b: a in b),
    "not_in": ("{} not in {}", 4, lambda a, b: a not in b),
    "add": ("{} + {}", 6, lambda a, b: a + b),
    "sub": ("{} - {}", 6, lambda a, b: a - b),
    "mul": ("{} * {}", 7, lambda a, b: a * b),
    "div": ("{} / {}", 7, lambda a, b: a / b),
    "floordiv": ("{} // {}", 7, lambda a, b: a // b),
    "mod": ("{} % {}", 7, lambda a, b: a % b),
    "neg": ("-{}", 8, lambda a: -a),
    "pow": ("{} ** {}", 9, lambda a, b: a**b),
    "int": ("int({})", 10, int),
    "float": ("float({})", 10, float),
    "bool": ("bool({})", 10, bool),
    "str": ("str({})", 10, str),
    "abs": ("abs({})", 10, abs),
    "round": ("round({})", 10, round),
    "min": ("min({}, {})", 10, min),
    "max": ("max({}, {})", 10, max),
    "least": ("min({})", 10, min),
    "greatest": ("max({})", 10, max),
    "len": ("len({})", 10, len),
    "item": ("{}[{}]", 10, lambda a, b: a[b]),
    "sqrt": ("math.sqrt({})", 10, lambda a: a**0.5),
    "log": ("math.log({})", 10, lambda a: __import__("math").log(a)),
    "floor": ("math.floor({})", 10, lambda a: __import__("math").floor(a)),
    "ceil": ("math.ceil({})", 10, lambda a: __import__("math").ceil(a)),
}
_ATOM = 11


def apply(op: str, *operands: Plain | Scalar) -> Plain | Scalar:
    """The operator on scalars: a `Scalar` if any operand is one, else a plain value.

    Raises:
        KeyError: the operator is not in `OPERATORS`.
        Exception: whatever the operator raises on these values (a division by zero, say).
    """
    value: Plain = OPERATORS[op][2](*(unwrap(operand) for operand in operands))
    if op == "neg" and isinstance(operands[0], Scalar) and operands[0].expr.op == "neg":
        (positive,) = operands[0].expr.args
        return Scalar(value, positive if isinstance(positive, Expr) else const(positive))
    if not any(isinstance(operand, Scalar) for operand in operands):
        return value
    exprs = tuple(expr_of(operand) for operand in operands)
    if all(expr.op == "const" for expr in exprs):
        return Scalar(value, Expr("const", (value,), Expr(op, exprs).chosen))
    return Scalar(value, Expr(op, exprs))


def chosen_by(value: Plain | Scalar, fields: frozenset[str]) -> Scalar:
    """The value with more fields that decided that it was taken."""
    expr = expr_of(value)
    return Scalar(unwrap(value), Expr(expr.op, expr.args, expr.chosen | fields))


def origins_of(expr: Expr) -> set[str]:
    """The configuration paths that an expression reads, and those that decided that it was taken."""
    return fields_of(expr) | expr.chosen


def unwrap(value: Any) -> Any:
    return value.value if isinstance(value, Scalar) else value


def expr_of(value: Plain | Scalar) -> Expr:
    return value.expr if isinstance(value, Scalar) else const(value)


def evaluate(expr: Expr, fields: Callable[[str], Any], symbols: Mapping[str, int]) -> Any:
    """The value of an expression, given a reader of configuration paths and the sizes' values."""
    if expr.op == "const":
        return expr.args[0]
    if expr.op == "field":
        return fields(expr.args[0])
    if expr.op == "symbol":
        return symbols[expr.args[0]]
    operands = [evaluate(operand, fields, symbols) if isinstance(operand, Expr) else operand for operand in expr.args]
    return OPERATORS[expr.op][2](*operands)


def read_field(config: Mapping[str, Any], path: str) -> Any:
    """The value at a configuration path such as ``rope_parameters['rope_theta']``.

    Raises:
        KeyError: the configuration has no such field.
    """
    value: Any = config
    for step in _STEP.finditer(path):
        name, single, double, index = step.groups()
        value = value[int(index)] if index is not None else value[name or single or double]
    return value


def substitute(expr: Expr, symbols: Mapping[str, Expr]) -> Expr:
    """The expression with other expressions in the place of some of its symbols."""
    if expr.op == "symbol":
        return symbols.get(expr.args[0], expr)
    return Expr(
        expr.op, tuple(substitute(each, symbols) if isinstance(each, Expr) else each for each in expr.args), expr.chosen
    )


def walk(expr: Expr) -> Iterator[Expr]:
    yield expr
    for operand in expr.args:
        if isinstance(operand, Expr):
            yield from walk(operand)


def fields_of(expr: Expr) -> set[str]:
    """The configuration paths that an expression reads."""
    return _named(expr, "field", set())


def symbols_of(expr: Expr) -> set[str]:
    """The run-time sizes that an expression depends on."""
    return _named(expr, "symbol", set())


def _named(expr: Expr, op: str, found: set[str]) -> set[str]:
    """Adds the names of the leaves of a kind; asked too often for a generator at each level."""
    if expr.op == op:
        found.add(expr.args[0])
    for operand in expr.args:
        if type(operand) is Expr:
            _named(operand, op, found)
    return found


def render(expr: Expr, config: str = "config") -> str:
    """The expression as Python source with the fewest parentheses."""
    return _render(expr, config)[0]


def _render(expr: Expr, config: str) -> tuple[str, int]:
    if expr.op == "const":
        value = expr.args[0]
        negative = isinstance(value, int | float) and not isinstance(value, bool) and value < 0
        return repr(value), OPERATORS["neg"][1] if negative else _ATOM
    if expr.op == "field":
        return f"{config}.{expr.args[0]}", _ATOM
    if expr.op == "symbol":
        return expr.args[0], _ATOM
    template, precedence, _ = OPERATORS[expr.op]
    parts = []
    for position, operand in enumerate(expr.args):
        text, inner = _render(operand if isinstance(operand, Expr) else const(operand), config)
        if _needs_parentheses(expr.op, precedence, position, inner):
            text = f"({text})"
        parts.append(text)
    return template.format(*parts), precedence


def _needs_parentheses(op: str, precedence: int, position: int, inner: int) -> bool:
    if precedence == OPERATORS["len"][1]:  # a call separates its arguments itself
        return False
    if op == "pow":  # right-associative, and a unary minus on its right needs none
        return inner <= precedence if position == 0 else inner < OPERATORS["neg"][1]
    if precedence == OPERATORS["eq"][1]:  # comparisons chain: both sides must bind tighter
        return inner <= precedence
    return inner < precedence if position == 0 else inner <= precedence

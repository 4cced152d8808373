"""Constructor arguments and sizes as source."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kunport_codegen.emission.identifiers import identifier, literal, path
from kunport_codegen.expression import Expr, Scalar, const
from kunport_codegen.expression import render as render_expression
from kunport_codegen.lowering.members import Call, Choice, Item, Name, Own, Prefix, Repeat, Updated, Value

Names = Mapping[Expr, str]


def render(value: Value, names: Names) -> str:
    """The value as source; expressions that have a name in ``names`` are written by it.

    Raises:
        EmissionError: something in it has no place in code.
    """
    if isinstance(value, Scalar | Expr):
        return render_expression(checked(value.expr if isinstance(value, Scalar) else value, names))
    if isinstance(value, Name):
        return value.text
    if isinstance(value, Item):
        return f"self.{identifier(value.member)}.{identifier(value.attribute)}"
    if isinstance(value, Call):
        return f"{identifier(value.function)}({', '.join(render(arg, names) for arg in value.args)})"
    if isinstance(value, Prefix):
        return f'f"{{prefix}}.{identifier(value.name)}"'
    if isinstance(value, Repeat):
        return f"[{render(value.value, names)}] * {value.times}"
    if isinstance(value, Updated):
        return f"{{**{render(value.value, names)}, {literal(value.key)}: {render(value.item, names)}}}"
    if isinstance(value, Choice):
        test = render_expression(checked(value.test, names))
        return f"{render(value.then, names)} if {test} else {render(value.otherwise, names)}"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{literal(key)}: {render(item, names)}' for key, item in value.items())}}}"
    if isinstance(value, list | tuple):
        items = ", ".join(render(item, names) for item in value)
        return f"[{items}]" if isinstance(value, list) else f"({items},)" if len(value) == 1 else f"({items})"
    return literal(value)


def checked(expr: Expr, names: Names) -> Expr:
    """The expression with named parts replaced by their names and every text in it checked."""
    if expr in names:
        return Expr("symbol", (names[expr],))
    if expr.op == "field":
        return Expr("field", (path(expr.args[0]),))
    if expr.op == "symbol":
        return Expr("symbol", (identifier(expr.args[0]),))
    if expr.op == "const":
        literal(expr.args[0])
        return expr
    return Expr(expr.op, tuple(checked(arg, names) if isinstance(arg, Expr) else _plain(arg) for arg in expr.args))


def _plain(arg: Any) -> Expr:
    literal(arg)
    return const(arg)


def expressions(value: Value) -> Iterable[Expr]:
    """The expressions on the configuration in a value, not those inside them."""
    if isinstance(value, Scalar):
        yield value.expr
    elif isinstance(value, Expr):
        yield value
    elif isinstance(value, Repeat):
        yield from expressions(value.value)
    elif isinstance(value, Updated):
        yield from expressions(value.value)
        yield from expressions(value.item)
    elif isinstance(value, Choice):
        for part in (value.then, value.test, value.otherwise):
            yield from expressions(part)
    elif isinstance(value, Call):
        yield from expressions(value.args)
    elif isinstance(value, Own):
        yield from expressions(list(value.sizes))
    elif isinstance(value, dict):
        yield from expressions(list(value.values()))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from expressions(item)


def occurrences(expr: Expr, part: Expr) -> int:
    """How often one expression stands in another."""
    if expr == part:
        return 1
    return sum(occurrences(arg, part) for arg in expr.args if isinstance(arg, Expr))

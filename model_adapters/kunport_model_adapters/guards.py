"""Refuses a checkpoint that an adapter was not generated for.

An adapter is specialised on what one configuration decided. It keeps those decisions as ``GUARDS``,
expression -> value, and calls `check_guards` before it builds anything.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping

from kunport_model_adapters.errors import AdapterError
from kunport_model_adapters.expressions import evaluate, fields, parse

_CURE = "Generate an adapter for this checkpoint with `kunport generate adapters`."
_NO_VALUE = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


def check_guards(config: object, guards: Mapping[str, object]) -> None:
    """Raise unless every guard's expression has its value for this configuration.

    Args:
        config: a configuration of Transformers.
        guards: Python expression over ``config`` (see `kunport_model_adapters.expressions`) -> the value it must have.

    Raises:
        AdapterError: the configuration differs; the fields are named, with their values and what was expected.
        ExpressionError: a guard is no expression over a configuration.
    """
    differences = [_difference(config, expression, expected) for expression, expected in guards.items()]
    found = [difference for difference in differences if difference]
    if found:
        model = getattr(config, "model_type", type(config).__name__)
        raise AdapterError(f"This adapter was generated for another {model} configuration: {'; '.join(found)}.", _CURE)


def _difference(config: object, expression: str, expected: object) -> str:
    """What is wrong, in words; "" where nothing is."""
    tree = parse(expression)
    try:
        if evaluate(tree, config) == expected:
            return ""
    except _NO_VALUE:
        pass  # A field that is missing, or of another type, is a difference like any other.
    return f"{_found(tree, config)}, expected {_wanted(tree, expected)}"


def _found(tree: ast.expr, config: object) -> str:
    found = []
    for path in fields(tree):
        try:
            found.append(f"{path} is {evaluate(parse(f'config.{path}'), config)!r}")
        except _NO_VALUE:
            found.append(f"{path} is missing")
    return " and ".join(found)


def _wanted(tree: ast.expr, expected: object) -> str:
    text = ast.unparse(tree).replace("config.", "")
    if [text] == fields(tree):
        return repr(expected)
    if isinstance(expected, bool):
        return text if expected else f"not ({text})"
    return f"{text} == {expected!r}"

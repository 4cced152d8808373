"""The parameters of functions of the source."""

from __future__ import annotations

import ast


def positional(parameters: ast.arguments) -> list[str]:
    """Names of those that may be given by their position."""
    return [each.arg for each in (*parameters.posonlyargs, *parameters.args)]


def keyword_only(parameters: ast.arguments) -> list[str]:
    """Names of those that are given by name alone."""
    return [each.arg for each in parameters.kwonlyargs]


def named(parameters: ast.arguments) -> list[str]:
    """Names of all but those that collect the rest."""
    return positional(parameters) + keyword_only(parameters)


def defaults(parameters: ast.arguments) -> list[tuple[str, ast.expr]]:
    """(name, expression) for those with a default, in their order."""
    names = positional(parameters)
    pairs = list(zip(names[len(names) - len(parameters.defaults) :], parameters.defaults, strict=True))
    own = zip(keyword_only(parameters), parameters.kw_defaults, strict=True)
    return pairs + [(name, default) for name, default in own if default is not None]

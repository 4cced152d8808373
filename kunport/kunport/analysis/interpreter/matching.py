"""``match`` statements, read as the chain of ``if`` that they stand for."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from kunport.analysis.interpreter.signals import NotUnderstoodError


def as_branches(node: ast.Match) -> list[ast.stmt]:
    """The assignment of the subject to a name that no source has, and the cases as branches on it.

    Raises:
        NotUnderstoodError: a pattern takes arguments of a class by position, or takes a sequence or mapping apart whose
            rest has a name.
    """
    subject = f"match {node.lineno}:{node.col_offset}"
    chain: list[ast.stmt] = []
    for case in reversed(node.cases):
        tests = list(_tests(case.pattern, ast.Name(subject, ast.Load())))
        if case.guard is not None:
            tests.append(case.guard)
        branch = ast.copy_location(ast.If(_all(tests), case.body, chain), case.pattern)
        branch.end_lineno = (chain[-1] if chain else case.body[-1]).end_lineno
        chain = [ast.fix_missing_locations(branch)]
    assigned = ast.copy_location(ast.Assign([ast.Name(subject, ast.Store())], node.subject), node.subject)
    return [ast.fix_missing_locations(assigned), *chain]


def _tests(pattern: ast.pattern, value: ast.expr) -> Iterator[ast.expr]:
    """Conditions that hold, one after another, where a pattern fits a value; names that it binds are bound by them."""
    match pattern:
        case ast.MatchValue(value=wanted):
            yield ast.Compare(value, [ast.Eq()], [wanted])
        case ast.MatchSingleton(value=wanted):
            yield ast.Compare(value, [ast.Is()], [ast.Constant(wanted)])
        case ast.MatchOr(patterns=patterns):
            every = [list(_tests(each, value)) for each in patterns]
            yield ast.BoolOp(ast.Or(), [_all(tests) for tests in every])
        case ast.MatchAs(pattern=inner, name=name):
            if inner is not None:
                yield from _tests(inner, value)
            if name is not None:
                yield _bound(name, value)
        case ast.MatchSequence(patterns=patterns):
            if any(isinstance(each, ast.MatchStar) for each in patterns):
                raise NotUnderstoodError("a pattern that takes the rest of a sequence")
            kinds = ast.Tuple([ast.Name("list", ast.Load()), ast.Name("tuple", ast.Load())], ast.Load())
            yield _called("isinstance", value, kinds)
            yield ast.Compare(_called("len", value), [ast.Eq()], [ast.Constant(len(patterns))])
            for position, each in enumerate(patterns):
                yield from _tests(each, ast.Subscript(value, ast.Constant(position), ast.Load()))
        case ast.MatchMapping(keys=keys, patterns=patterns, rest=None):
            yield _called("isinstance", value, ast.Name("dict", ast.Load()))
            for key, each in zip(keys, patterns, strict=True):
                yield ast.Compare(key, [ast.In()], [value])
                yield from _tests(each, ast.Subscript(value, key, ast.Load()))
        case ast.MatchClass(cls=cls, patterns=[], kwd_attrs=names, kwd_patterns=patterns):
            yield _called("isinstance", value, cls)
            for name, each in zip(names, patterns, strict=True):
                yield from _tests(each, ast.Attribute(value, name, ast.Load()))
        case _:
            raise NotUnderstoodError("a pattern that takes a value apart by position or names its rest")


def _all(tests: list[ast.expr]) -> ast.expr:
    return ast.BoolOp(ast.And(), tests) if len(tests) > 1 else tests[0] if tests else ast.Constant(True)


def _bound(name: str, value: ast.expr) -> ast.expr:
    """A condition that holds whatever the value is, and binds it: a tuple of one item."""
    return ast.Tuple([ast.NamedExpr(ast.Name(name, ast.Store()), value)], ast.Load())


def _called(function: str, *arguments: ast.expr) -> ast.expr:
    return ast.Call(ast.Name(function, ast.Load()), list(arguments), [])

"""Simplification of size expressions: shorter, and never of another value.

An expression is read in two forms. As a *product* it is a constant times factors, which cancel when one size is
divided by another. As a *polynomial* it is a sum of such products, which merge when sizes are added; what is neither
a sum, a difference nor a product (``a // b``, ``min(a, b)``, a field) is an atom. All sizes are whole numbers and none
is negative; configuration fields and the symbols ``batch``, ``sequence`` and ``past`` are taken to be at least 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache

from kunport_codegen.expression import Expr, const, walk

ZERO, ONE = const(0), const(1)
# A product of atoms, in the order of their text, with its coefficient. Equal polynomials are equal dictionaries.
Polynomial = dict[tuple[Expr, ...], Fraction]


def product(operands: Iterable[Expr]) -> Expr:
    return _join_factors(*_factors(operands))


@lru_cache(4096)
def quotient(dividend: Expr, divisor: Expr) -> Expr:
    """``dividend // divisor`` with what both have in common cancelled."""
    (above, factors), (below, divisors) = _factors([dividend]), _factors([divisor])
    shared = math.gcd(above, below) or 1
    left = []
    for factor in divisors:
        match = next((index for index, other in enumerate(factors) if equal(factor, other)), None)
        if match is None:
            left.append(factor)
        else:
            del factors[match]
    numerator, denominator = _join_factors(above // shared, factors), _join_factors(below // shared, left)
    if denominator == ONE:
        return numerator
    exact = _exact_quotient(_polynomial(numerator), _polynomial(denominator))
    return Expr("floordiv", (numerator, denominator)) if exact is None else _join_terms(exact)


@lru_cache(4096)
def divides(divisor: Expr, dividend: Expr) -> bool:
    """Whether the quotient is known to leave no remainder."""
    return equal(product((quotient(dividend, divisor), divisor)), dividend)


@lru_cache(4096)
def add(a: Expr, b: Expr) -> Expr:
    return _sum("add", a, b)


@lru_cache(4096)
def subtract(a: Expr, b: Expr) -> Expr:
    return _sum("sub", a, b)


def equal(a: Expr, b: Expr) -> bool:
    return a == b or _polynomial(a) == _polynomial(b)


@lru_cache(4096)
def at_least(a: Expr, b: Expr) -> bool:
    """Whether ``a >= b`` is known for every configuration and every size."""
    return _never_negative(_merge(_polynomial(a), _polynomial(b), -1))


def _never_negative(polynomial: Polynomial) -> bool:
    floor = Fraction(0)
    for atoms, coefficient in polynomial.items():
        if not all(map(_not_negative, atoms)):
            return False
        if coefficient < 0 and atoms:
            rest = {other: held for other, held in polynomial.items() if other != atoms}
            bounds = [bound for atom in atoms for bound in _upper_bounds(atoms, atom)]
            return any(_never_negative(_merge(rest, _times({(): coefficient}, bound))) for bound in bounds)
        if all(map(_positive, atoms)):
            floor += coefficient
    return floor >= 0


def _upper_bounds(atoms: tuple[Expr, ...], atom: Expr) -> list[Polynomial]:
    """Polynomials that a product never exceeds, by a bound of one of its atoms: ``x // c * c`` is at most ``x``."""
    rest = _without(atoms, (atom,))
    if rest is None or atom.op not in ("floordiv", "min"):
        return []
    if atom.op == "min":
        return [_times({rest: Fraction(1)}, _polynomial(operand)) for operand in atom.args]
    divisor = _polynomial(atom.args[1])
    if len(divisor) != 1:
        return []
    ((factors, coefficient),) = divisor.items()
    left = _without(rest, factors)
    return [_times({left: 1 / coefficient}, _polynomial(atom.args[0]))] if left is not None and coefficient > 0 else []


def _without(atoms: tuple[Expr, ...], gone: tuple[Expr, ...]) -> tuple[Expr, ...] | None:
    """A product without some of its atoms, None if it does not have them."""
    rest = list(atoms)
    for atom in gone:
        if atom not in rest:
            return None
        rest.remove(atom)
    return tuple(rest)


def length(expr: Expr) -> int:
    """How many operators and operands an expression has."""
    return sum(1 for _ in walk(expr))


def _positive(atom: Expr) -> bool:
    return atom.op == "field" or (atom.op == "symbol" and atom.args[0] in ("batch", "sequence", "past"))


def _not_negative(atom: Expr) -> bool:
    """What is computed in another way than listed here is a size, and therefore not negative."""
    known = [at_least(operand, ZERO) for operand in atom.args if isinstance(operand, Expr)]
    return any(known) if atom.op == "max" else all(known) if atom.op in ("min", "floordiv") else True


def _constant(expr: Expr) -> int:
    return expr.args[0] if expr.op == "const" and isinstance(expr.args[0], int) else 0


# Products


def _factors(operands: Iterable[Expr]) -> tuple[int, list[Expr]]:
    coefficient, factors = 1, []
    pending = list(operands)
    while pending:
        operand = pending.pop(0)
        if operand.op == "mul":
            pending[:0] = operand.args
        elif operand.op == "const" and isinstance(operand.args[0], int):
            coefficient *= operand.args[0]
        else:
            factors.append(operand)
    return coefficient, factors


def _join_factors(coefficient: int, factors: list[Expr]) -> Expr:
    if coefficient == 0:
        return ZERO
    operands = factors if coefficient == 1 and factors else [const(coefficient), *factors]
    result = operands[0]
    for operand in operands[1:]:
        result = Expr("mul", (result, operand))
    return result


# Sums


def _sum(op: str, a: Expr, b: Expr) -> Expr:
    left, right = _polynomial(a), _polynomial(b)
    merged = _merge(left, right, 1 if op == "add" else -1)
    if not left or not right or len(merged) < len(left) + len(right):
        return a if left == merged else b if right == merged else _join_terms(merged)
    if _constant(b) < 0:
        return Expr("sub" if op == "add" else "add", (a, const(-_constant(b))))
    return Expr(op, (a, b))


def _join_terms(polynomial: Polynomial) -> Expr:
    """The sum as an expression: positive terms first, so that no sum begins with a minus where it can be helped."""
    result: Expr | None = None
    for atoms, coefficient in sorted(polynomial.items(), key=lambda term: (term[1] < 0, not term[0])):
        term = _join_factors(abs(int(coefficient)), list(atoms))
        if result is None:
            result = term if coefficient > 0 else _join_factors(int(coefficient), list(atoms))
        else:
            result = Expr("add" if coefficient > 0 else "sub", (result, term))
    return result or ZERO


def _polynomial(expr: Expr) -> Polynomial:
    if expr.op == "const" and isinstance(expr.args[0], int):
        return {(): Fraction(expr.args[0])} if expr.args[0] else {}
    if expr.op in ("add", "sub"):
        return _merge(_polynomial(expr.args[0]), _polynomial(expr.args[1]), 1 if expr.op == "add" else -1)
    if expr.op == "mul":
        return _times(_polynomial(expr.args[0]), _polynomial(expr.args[1]))
    if expr.op == "neg":
        return _merge({}, _polynomial(expr.args[0]), -1)
    return {(expr,): Fraction(1)}


def _merge(a: Polynomial, b: Polynomial, sign: int = 1) -> Polynomial:
    result = dict(a)
    for atoms, coefficient in b.items():
        result[atoms] = result.get(atoms, Fraction(0)) + sign * coefficient
        if not result[atoms]:
            del result[atoms]
    return result


def _times(a: Polynomial, b: Polynomial) -> Polynomial:
    result: Polynomial = {}
    for left, first in a.items():
        for right, second in b.items():
            result = _merge(result, {tuple(sorted(left + right, key=str)): first * second})
    return result


def _exact_quotient(dividend: Polynomial, divisor: Polynomial) -> Polynomial | None:
    """The polynomial that times ``divisor`` is ``dividend``, if there is one with whole coefficients."""
    leading = _leading(divisor)
    result: Polynomial = {}
    while dividend:
        highest = _leading(dividend)
        rest = _without(highest, leading)
        coefficient = dividend[highest] / divisor[leading]
        if rest is None or coefficient.denominator != 1:
            return None
        term = {rest: coefficient}
        result = _merge(result, term)
        dividend = _merge(dividend, _times(term, divisor), -1)
    return result


def _leading(polynomial: Polynomial) -> tuple[Expr, ...]:
    """The highest product in the graded order, which multiplication keeps."""
    names = sorted({str(atom) for atoms in polynomial for atom in atoms})
    return max(
        polynomial, key=lambda atoms: (len(atoms), [[str(atom) for atom in atoms].count(name) for name in names])
    )

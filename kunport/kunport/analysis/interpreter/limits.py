"""How much work and memory hostile source may cost. What goes beyond is not understood, and the reason says so.

The numbers are far beyond what models need: the hardest text decoder of Transformers takes a third of `WORK`.
"""

from __future__ import annotations

import re
from collections.abc import Sized
from typing import Any

from kunport.analysis.interpreter.signals import NotUnderstoodError

STATEMENT = 10  # work of a statement; that of an item which is gone through is 1
CALL = 50  # work of a call
NODE = 5  # work of an operator, beyond that of its statement
NESTED = 3  # runs of a module inside runs of itself, before they are taken to be endless
WORK = 1_500_000  # of one analysis
ITEMS = 1_000_000  # of a list, characters of a string
BITS = 100_000  # of a whole number


def count(values: Sized) -> int:
    """The length of something that is about to be gone through.

    Raises:
        NotUnderstoodError: it is longer than `ITEMS`.
    """
    try:
        length = len(values)
    except OverflowError:  # a range beyond what a machine can index
        length = ITEMS + 1
    if length > ITEMS:
        raise NotUnderstoodError(f"more than {ITEMS:,} items")
    return length


def check_operator(name: str, operands: list[Any]) -> None:
    """Refuse a plain operator whose result would be too large to hold.

    Raises:
        NotUnderstoodError: it would be.
    """
    if len(operands) != 2:
        return
    left, right = operands
    if name == "mul":
        for one, other in ((left, right), (right, left)):
            if isinstance(one, str | bytes | list | tuple) and isinstance(other, int) and len(one) * other > ITEMS:
                raise NotUnderstoodError(f"a repetition to more than {ITEMS:,} items")
    elif (
        name == "add" and isinstance(left, str | bytes | list | tuple) and isinstance(right, str | bytes | list | tuple)
    ):
        if len(left) + len(right) > ITEMS:
            raise NotUnderstoodError(f"more than {ITEMS:,} items")
    elif name == "mod" and isinstance(left, str | bytes):
        _check_widths(str(left))
        if re.search(r"%[^a-zA-Z%]*\*", str(left)):
            raise NotUnderstoodError("a format whose width is an argument")
    if isinstance(left, int) and isinstance(right, int) and _bits(name, left, right) > BITS:
        raise NotUnderstoodError(f"a number of more than {BITS:,} bits")


def _bits(name: str, left: int, right: int) -> int:
    """No fewer bits than the result has."""
    if name == "pow":
        return left.bit_length() * right if abs(left) > 1 else 1
    if name == "lshift":
        return left.bit_length() + right if left else 1
    return left.bit_length() + right.bit_length() if name == "mul" else 1


def check_mathematics(name: str, arguments: list[Any]) -> None:
    """Refuse a function of whole numbers whose result would be absurdly long.

    Raises:
        NotUnderstoodError: it would be.
    """
    if name in ("factorial", "comb", "perm", "lcm", "ldexp") and any(
        isinstance(each, int) and abs(each) > 5000 for each in arguments
    ):
        raise NotUnderstoodError(f"math.{name} of a number beyond 5,000")


def check_call(name: str, arguments: list[Any]) -> None:
    """Refuse a method of a string or number that pads, repeats or rounds to an absurd length.

    Raises:
        NotUnderstoodError: it would.
    """
    if any(isinstance(each, int) and abs(each) > ITEMS for each in arguments):
        raise NotUnderstoodError(f"{name} of a number beyond {ITEMS:,}")
    if name in ("format", "__mod__"):
        _check_widths("".join(map(str, arguments)))
    long = sum(len(each) for each in arguments if isinstance(each, str))
    if name in ("replace", "translate") and long > 1000:
        raise NotUnderstoodError(f"{name} of very long strings")


def _check_widths(template: str) -> None:
    digits = "".join(each if each.isdigit() else " " for each in template).split()
    if any(len(number) > 4 for number in digits):
        raise NotUnderstoodError("a format of more than 9,999 characters")

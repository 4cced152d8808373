"""Limits on what an operator, or one implementation of it, takes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kunport_runtime.operators.binding import Binding


@dataclass(frozen=True, slots=True)
class Limit:
    """A bound on one property of a call.

    Attributes:
        of: a size (``head_dim``), an option (``softcap``), ``NAME.dtype``, ``NAME.given`` or ``NAME.contiguous``.
        one_of: all that is taken; empty for no such bound.
        minimum: the smallest number, or the name of a size that has it.
        maximum: the largest number, or the name of a size that has it.
        multiple_of: a divisor, or the name of a size that has it; 0 divides everything.
        why: the reason, for messages and the reference.
    """

    of: str
    one_of: tuple[object, ...] = ()
    minimum: int | str | None = None
    maximum: int | str | None = None
    multiple_of: int | str | None = None
    why: str = ""

    def names(self) -> Iterator[str]:
        """The properties that decide it."""
        yield self.of
        yield from (each for each in (self.minimum, self.maximum, self.multiple_of) if isinstance(each, str))

    def refusal(self, call: Binding) -> str:
        """Why the call is beyond the limit; "" where it is not, or has no such property."""
        value = call.value(self.of)
        if value is None:
            return ""
        if self.one_of and value not in self.one_of:
            return self._say(value, f"not {_either(self.one_of)}")
        if self.minimum is not None and value < _number(self.minimum, call):
            return self._say(value, f"below {self.minimum}")
        if self.maximum is not None and value > _number(self.maximum, call):
            return self._say(value, f"above {self.maximum}")
        if self.multiple_of is not None and (divisor := _number(self.multiple_of, call)) and value % divisor:
            return self._say(value, f"no multiple of {self.multiple_of}")
        return ""

    def __str__(self) -> str:
        bounds = [f"one of {_either(self.one_of)}"] if self.one_of else []
        bounds += [f"at least {self.minimum}"] if self.minimum is not None else []
        bounds += [f"at most {self.maximum}"] if self.maximum is not None else []
        bounds += [f"a multiple of {self.multiple_of}"] if self.multiple_of is not None else []
        return f"{self.of} is {' and '.join(bounds)}{f': {self.why}' if self.why else ''}"

    def _say(self, value: object, fault: str) -> str:
        return f"{self.of} is {value}, {fault}{f' ({self.why})' if self.why else ''}"


def _number(bound: int | str, call: Binding) -> int:
    return call.sizes[bound] if isinstance(bound, str) else bound


def _either(values: tuple[object, ...]) -> str:
    return ", ".join(map(str, values))

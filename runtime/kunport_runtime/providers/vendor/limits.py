"""Limits that hold only in some calls, which the vendor's operators have: one routes by softmax, another by sigmoid."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kunport_runtime.operators.contract import FLOATS
from kunport_runtime.operators.limit import Limit

if TYPE_CHECKING:
    from kunport_runtime.operators.binding import Binding


@dataclass(frozen=True, slots=True)
class LimitWhere(Limit):
    """A limit on the calls that keep other limits.

    Attributes:
        where: those.
    """

    where: tuple[Limit, ...] = ()

    def names(self) -> Iterator[str]:
        """The properties that decide it."""
        yield from Limit.names(self)
        for condition in self.where:
            yield from condition.names()

    def refusal(self, call: Binding) -> str:
        """Why the call is beyond the limit; "" where it is not, or is none of those."""
        if any(condition.refusal(call) for condition in self.where):
            return ""
        return Limit.refusal(self, call)

    def __str__(self) -> str:
        return f"{Limit.__str__(self)}, where {' and '.join(map(str, self.where))}"


def same_dtype(name: str, as_: str, *others: str) -> tuple[LimitWhere, ...]:
    """``name`` has the dtype of ``as_``, or one of the others."""
    return tuple(
        LimitWhere(
            f"{name}.dtype",
            one_of=(dtype, *others),
            why=f"as {as_}",
            where=(Limit(f"{as_}.dtype", one_of=(dtype,)),),
        )
        for dtype in FLOATS
    )

"""An operator for tests of the machinery: ``out = factor * x``, or in place."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from kunport_runtime.operators.accounting import Ledger
from kunport_runtime.operators.contract import Case, Contract, option, reads, updates, writes
from kunport_runtime.operators.dispatch import Dispatcher
from kunport_runtime.operators.draw import Draw
from kunport_runtime.operators.implementation import Implementation
from kunport_runtime.operators.limit import Limit
from kunport_runtime.operators.policy import Policy
from kunport_runtime.operators.probe import Probes
from kunport_runtime.operators.registry import Registry
from kunport_runtime.operators.tolerance import rounded


def multiply(out: torch.Tensor, x: torch.Tensor, factor: float) -> None:
    out.copy_(x * factor)


def multiply_in_place(x: torch.Tensor, factor: float) -> None:
    x.mul_(factor)


def cases(draw: Draw) -> Iterator[Case]:
    for rows in (2, 5, 8, 11):
        arguments = {"x": draw.normal(rows, 4), "factor": 3.0}
        yield Case(f"{rows} rows", {**arguments, "out": draw.poison(rows, 4)})


def cases_in_place(draw: Draw) -> Iterator[Case]:
    yield Case("three rows", {"x": draw.normal(3, 4), "factor": 3.0})


SCALE = Contract(
    name="scale",
    arguments=(
        writes("out", "rows, size", "the products", like="x"),
        reads("x", "rows, size", "the factors"),
        option("factor", float, "the other factor", default=2.0),
    ),
    reference=multiply,
    cases=cases,
    tolerance=rounded(2),
    dtype_of="x",
    limits=(Limit("size", maximum=100),),
)
SCALE_IN_PLACE = Contract(
    name="scale_in_place",
    arguments=(updates("x", "rows, size", "multiplied"), option("factor", float, "by this", default=2.0)),
    reference=multiply_in_place,
    cases=cases_in_place,
    tolerance=rounded(2),
    dtype_of="x",
)


class Flaky:
    """A provider's function: right until it is told to fail; counts its calls."""

    def __init__(self, function: Callable[..., None]) -> None:
        self.function = function
        self.calls = 0
        self.error: Exception | None = None
        self.before_failing: Callable[..., None] = lambda **_: None

    def __call__(self, **arguments: object) -> None:
        self.calls += 1
        if self.error is not None:
            self.before_failing(**arguments)
            raise self.error
        self.function(**arguments)


def world(folder: object, *implementations: Implementation, policy: Policy | None = None) -> tuple[Dispatcher, Ledger]:
    """A dispatcher of its own, with probes in ``folder`` and the two operators."""
    registry, account = Registry(), Ledger()
    registry.register(SCALE, SCALE_IN_PLACE, *implementations)
    return Dispatcher(registry, policy or Policy(), Probes(folder), account), account  # type: ignore[arg-type]


def mine(
    function: Callable[..., None], *limits: Limit, operator: str = "scale", provider: str = "mine"
) -> Implementation:
    return Implementation(operator, provider, function, limits)

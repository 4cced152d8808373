"""The product of an activated gate and its partner, ``act(gate) * (up + up_offset)``, from one packed projection.

``packing="halves"`` has the gate in the first half of a row and ``up`` in the second, ``"interleaved"`` has them in
turn. With a ``limit`` the gate is at most that, and ``up`` between plus and minus it, before anything else. ``silu``
is ``gate * sigmoid(alpha * gate)``. So gpt-oss is ``packing="interleaved", alpha=1.702, limit=7, up_offset=1``. All
in float32, rounded once. Shazeer, 2020, https://arxiv.org/abs/2002.05202.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from kunport_runtime.operators.activations.options import ACTIVATIONS, GATED
from kunport_runtime.operators.contract import Case, Contract, reads, writes
from kunport_runtime.operators.draw import Draw
from kunport_runtime.operators.numerics import activate, wide
from kunport_runtime.operators.tolerance import rounded


def gated(x: torch.Tensor, activation: str, packing: str, alpha: float, limit: float, up_offset: float) -> torch.Tensor:
    """The formula above, in the dtype that operators compute in."""
    gate, up = (wide(x[..., 0::2]), wide(x[..., 1::2])) if packing == "interleaved" else wide(x).chunk(2, dim=-1)
    if limit > 0:
        gate, up = gate.clamp(max=limit), up.clamp(-limit, limit)
    return activate(gate, activation, alpha) * (up + up_offset)


def reference(
    out: torch.Tensor,
    x: torch.Tensor,
    activation: str,
    packing: str,
    alpha: float,
    limit: float,
    up_offset: float,
) -> None:
    """The formula above."""
    out.copy_(gated(x, activation, packing, alpha, limit, up_offset))


def cases(draw: Draw) -> Iterator[Case]:
    """Every activation in halves; gpt-oss's form interleaved."""
    forms: list[tuple[str, str, float, float, float]] = [
        ("silu", "halves", 1.0, 0.0, 0.0),
        ("silu", "interleaved", 1.702, 7.0, 1.0),
        *((each, "halves", 1.0, 0.0, 0.0) for each in ACTIVATIONS if each != "silu"),
    ]
    shapes = ((3, 64, 0), (5, 90, 0), (1, 2050, 6), (17, 33, 2))
    for index, (activation, packing, alpha, limit, up_offset) in enumerate(forms):
        rows, size, spare = shapes[index % len(shapes)]
        yield Case(
            f"{activation}, {packing}, {rows} rows of {size}",
            {
                "out": draw.poison(rows, size, spare=spare),
                "x": draw.normal(rows, 2 * size, scale=3.0, spare=spare),
                "activation": activation,
                "packing": packing,
                "alpha": alpha,
                "limit": limit,
                "up_offset": up_offset,
            },
        )


CONTRACT = Contract(
    name="gated_activation",
    arguments=(
        writes("out", "rows, size", "the product", like="x"),
        reads("x", "rows, 2 * size", "gate and up, packed"),
        *GATED.values(),
    ),
    reference=reference,
    cases=cases,
    # One rounding on each side, of products up to some 30; float32's own exponential is a few units wrong.
    tolerance=rounded(2, scale=1.0),
    dtype_of="x",
)

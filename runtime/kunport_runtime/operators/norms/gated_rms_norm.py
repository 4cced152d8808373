"""RMS norm with a gate, as state-space and linear-attention layers end.

- ``order="norm_first"``: ``rms(x) * weight * act(gate)`` (Qwen3-Next);
- ``order="gate_first"``: ``rms(x * act(gate)) * weight`` (Mamba 2).

The norm is over groups of ``group_size`` elements of a row, or over the whole row. All in float32, rounded once. Dao
and Gu, 2024, https://arxiv.org/abs/2405.21060. ``out`` may be ``x``.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from kunport_runtime.operators.contract import Case, Contract, option, reads, writes
from kunport_runtime.operators.draw import Draw
from kunport_runtime.operators.limit import Limit
from kunport_runtime.operators.norms.options import EPSILON, WEIGHT
from kunport_runtime.operators.numerics import activate, rms, wide
from kunport_runtime.operators.tolerance import rounded


def reference(
    out: torch.Tensor,
    x: torch.Tensor,
    gate: torch.Tensor,
    weight: torch.Tensor | None,
    epsilon: float,
    group_size: int,
    order: str,
    activation: str,
) -> None:
    """The formulas above."""
    factor = activate(wide(gate), activation)
    value = wide(x) * factor if order == "gate_first" else wide(x)
    value = rms(value.reshape(len(x), -1, group_size or x.shape[-1]), epsilon).flatten(-2)
    if weight is not None:
        value = value * wide(weight)
    out.copy_(value * factor if order == "norm_first" else value)


def cases(draw: Draw) -> Iterator[Case]:
    """Both orders, both activations, whole rows and groups."""
    forms = (("norm_first", "silu", 0, True), ("gate_first", "silu", 32, True), ("norm_first", "sigmoid", 24, False))
    for (order, activation, group_size, weight), (rows, size, spare) in zip(
        forms, ((5, 64, 0), (3, 128, 16), (2, 72, 0)), strict=True
    ):
        yield Case(
            f"{order}, {activation}, groups of {group_size or size} in {size}",
            {
                "out": draw.poison(rows, size),
                "x": draw.normal(rows, size, spare=spare),
                "gate": draw.normal(rows, size, spare=spare),
                "weight": draw.normal(size) if weight else None,
                "epsilon": 1e-6,
                "group_size": group_size,
                "order": order,
                "activation": activation,
            },
        )


CONTRACT = Contract(
    name="gated_rms_norm",
    arguments=(
        writes("out", "rows, size", "the result", like="x", may_be="x"),
        reads("x", "rows, size", "what is normed"),
        reads("gate", "rows, size", "before its activation"),
        WEIGHT,
        EPSILON,
        option("group_size", int, "elements that are normed together; 0: the whole row", default=0),
        option("order", str, "what comes first", default="norm_first", choices=("norm_first", "gate_first")),
        option("activation", str, "of the gate", default="silu", choices=("silu", "sigmoid")),
    ),
    reference=reference,
    cases=cases,
    tolerance=rounded(2, scale=4.0),
    dtype_of="x",
    limits=(Limit("size", multiple_of="group_size", why="groups are whole"),),
)

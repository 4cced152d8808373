"""Options of a gated activation, which the experts have as well."""

from __future__ import annotations

from kunport_runtime.operators.contract import Option, option

ACTIVATIONS = ("silu", "gelu", "gelu_tanh", "relu", "relu_squared", "sigmoid", "tanh", "identity")

GATED: dict[str, Option] = {
    each.name: each
    for each in (
        option("activation", str, "of the gate", default="silu", choices=ACTIVATIONS),
        option("packing", str, "how gate and up share a row", default="halves", choices=("halves", "interleaved")),
        option("alpha", float, "the factor inside the sigmoid of silu", default=1.0),
        option("limit", float, "the largest gate and the largest |up|; 0: none", default=0.0),
        option("up_offset", float, "added to up", default=0.0),
    )
}

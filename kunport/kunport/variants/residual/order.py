"""The skeleton of a layer: in what order it takes the residual, normalises, mixes, computes and adds.

`r` takes the residual, `N` is a norm, `A` attention or another mixer of tokens, `M` an MLP or experts, `+` an
addition. Pre-norm is `r N A + r N M +`, post-norm on the branch `r A N + r M N +`, both (sandwich) `r N A N + r N M N
+`, parallel branches with one norm `r N A M + +`. Found by following the stream, so that names and the order of lines
do not matter.
"""

from __future__ import annotations

from kunport.variants.fact import Fact
from kunport.variants.model import Layer
from kunport.variants.stream import stream
from kunport.variants.variant import Example, Found, Variant

KEY = "residual.order"


def read(layer: Layer) -> Found:
    """The order; opaque where nothing is added to the layer's input in a way that can be followed."""
    found = stream(layer)
    unread = layer.unknowns or layer.unread_norms
    if unread:
        yield KEY, layer.model.opaque(unread[0])
    elif found.lost:
        yield KEY, Fact(None, found.where, reason=f"{found.where}: {found.lost}")
    else:
        yield (
            KEY,
            layer.model.fact(
                found.order,
                found.where,
                r"parallel|post_?(layer_?)?(norm|ln)|pre_?(norm|ln)|norm_(before|first)|sandwich",
            ),
        )


VARIANT = Variant(
    keys={KEY: "letters, separated by blanks"},
    scope="layer",
    read=read,
    examples=(
        Example("llama", "r N A + r N M +"),
        Example("olmo2", "r A N + r M N +"),
        Example("gemma2", "r N A N + r N M N +"),
        Example("cohere", "r N A M + +"),
        Example("gpt_neox", "r N A N M + +", fields=("use_parallel_residual",)),
        Example("gpt_neox", "r N A + r N M +", config={"use_parallel_residual": False}),
    ),
)

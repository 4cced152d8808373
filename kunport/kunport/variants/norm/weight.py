"""What multiplies a normalised vector, and how long the vector is.

`weight` and `bias` say whether there are such parameters. `offset` is added to the weight before it multiplies: 1.0 for
`(1 + w) * x`, as in Gemma. `size` is the number of elements that are normalised together.
"""

from __future__ import annotations

from kunport_codegen.facts import Norm

from kunport.variants.model import Model
from kunport.variants.variant import Example, Found, Variant


def read(model: Model, norm: Norm) -> Found:
    """The four keys."""
    yield "offset", model.fact(float(norm.offset), norm.where)
    yield "weight", model.fact(norm.weight is not None, norm.where, r"elementwise_affine|norm_?affine")
    yield "bias", model.fact(norm.bias is not None, norm.where, r"norm\w*bias|^(use_|no_|with_)?bias(es)?$")
    yield "size", model.fact(norm.size, norm.where)


VARIANT = Variant(
    keys={
        "norm[NAME].offset": "what is added to the weight",
        "norm[NAME].weight": "true or false",
        "norm[NAME].bias": "true or false",
        "norm[NAME].size": "elements normalised together",
    },
    scope="norm",
    read=read,
    examples=(
        Example("gemma2", 1.0, "norm[input_layernorm].offset"),
        Example("llama", 0.0, "norm[input_layernorm].offset"),
        Example("gpt2", True, "norm[ln_1].bias"),
        Example("olmo", False, "norm[input_layernorm].weight"),
        Example("qwen3", 128, "norm[self_attn.q_norm].size", fields=("head_dim",)),
        Example("llama", 4096, "norm[input_layernorm].size", fields=("hidden_size",)),
    ),
)

"""What a norm divides by.

`rms`: the root of the mean of squares (arXiv:1910.07467). `layer`: the mean is subtracted first (arXiv:1607.06450).
`l2`: the length of the vector.
"""

from __future__ import annotations

from kunport_codegen.facts import Norm

from kunport.variants.model import Model
from kunport.variants.variant import Example, Found, Variant


def read(model: Model, norm: Norm) -> Found:
    """The kind."""
    yield "kind", model.fact(norm.kind, norm.where, r"^norm(\W|_?(type|kind|class|name)|$)|norm_?type|use_rms")


VARIANT = Variant(
    keys={"norm[NAME].kind": "rms, layer or l2"},
    scope="norm",
    read=read,
    examples=(
        Example("llama", "rms", "norm[input_layernorm].kind"),
        Example("gpt2", "layer", "norm[ln_1].kind"),
        Example("cohere", "layer", "norm[input_layernorm].kind"),
        Example("qwen3", "rms", "norm[self_attn.q_norm].kind"),
    ),
)

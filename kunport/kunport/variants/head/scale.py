"""What happens to the logits: a factor, and a soft cap `c * tanh(logit / c)`.

`head.scale` counts factors right before the head as well; a division by c is the factor 1 / c.
"""

from __future__ import annotations

import math

from kunport_codegen.expression import unwrap

from kunport.variants.fact import Fact
from kunport.variants.logits import logits
from kunport.variants.model import Model
from kunport.variants.variant import Example, Found, Variant


def read(model: Model) -> Found:
    """Both keys; opaque where the logits cannot be followed back to the head."""
    found = logits(model)
    if found.lost:
        for key in ("head.scale", "head.softcap"):
            yield key, Fact(None, found.where, reason=f"{found.where}: {found.lost}")
        return
    value = math.prod(float(unwrap(factor)) for factor in found.factors)
    learned = Fact(None, found.where, reason=f"{found.where}: a parameter multiplies the logits")
    yield "head.scale", learned if found.learned else model.fact(value, found.where, "", *found.factors)
    yield "head.softcap", model.fact(found.softcap, found.where, r"^(?!.*att).*(soft_?cap|logit_?cap)")


VARIANT = Variant(
    keys={"head.scale": "the factor", "head.softcap": "null, or the cap"},
    scope="model",
    read=read,
    examples=(
        Example("cohere", 0.0625, "head.scale", fields=("logit_scale",)),
        Example("llama", 1.0, "head.scale"),
        Example("gemma2", 30.0, "head.softcap", fields=("final_logit_softcapping",)),
        Example("llama", None, "head.softcap"),
    ),
)

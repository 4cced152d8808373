"""Where a layer's attention gets positions from.

`rope`: queries and keys are rotated by their position (arXiv:2104.09864). `alibi`: scores fall with distance.
`learned` and `sinusoidal`: a vector of each position is added to the embedding. `none`: only the causal mask tells
order.
"""

from __future__ import annotations

from kunport.variants.fact import Fact
from kunport.variants.paths import Site
from kunport.variants.tokens import embedded_positions
from kunport.variants.turned import differing
from kunport.variants.variant import Example, Found, Variant

KEY = "position.kind"
SWITCHES = r"nope|no_rope|use_rope|rotary|alibi|position_embedding_type"


def read(site: Site) -> Found:
    """The kind; opaque where a query depends on cosines and sines in no way that recognition knows."""
    model, where = site.layer.model, site.fact.where
    if different := differing(site):
        yield KEY, Fact(None, where, reason=f"{where}: {different}")
    elif site.query.ropes:
        yield KEY, model.fact("rope", site.query.ropes[0].where, SWITCHES)
    elif site.query.angles or site.key.angles:
        node = (site.query.angles or site.key.angles)[0]
        reason = f"{where}: a rotation by {node.op} of {node.where} that kunport does not know"
        yield KEY, Fact(None, where, reason=reason)
    elif site.query.unknown is not None:
        yield KEY, model.opaque(site.query.unknown)
    elif (shifting := site.shifting) is not None:
        yield KEY, model.opaque(shifting, "positions are added to the scores in a way without a name")
    elif getattr(site.fact, "alibi", False):
        yield KEY, model.fact("alibi", where, SWITCHES)
    else:
        embedded = embedded_positions(model)
        value = Fact("none", where, embedded.fields, embedded.reason) if embedded.value is None else embedded
        yield KEY, value if value.reason else Fact(value.value, value.where, model.fact("", where, SWITCHES).fields)


VARIANT = Variant(
    keys={KEY: "rope, alibi, learned, sinusoidal or none"},
    scope="attention",
    read=read,
    examples=(
        Example("llama", "rope", fields=()),
        Example("gpt2", "learned"),
        Example("smollm3", "none", layer=3),
        Example("smollm3", "rope", layer=0),
    ),
)

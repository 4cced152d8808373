"""Norms of queries and keys.

`attention.qk_norm` says where they stand: `before_rope` or `after_rope`, `no_rope` in a layer without rotation, null
where there are none. `attention.qk_norm_span` says what each runs over: the elements of one `head`, or `all_heads`
together. Both are opaque where only one of the two is normalised, the span also where it is neither.
"""

from __future__ import annotations

import math

from kunport_codegen.expression import unwrap
from kunport_codegen.facts import Norm
from kunport_codegen.graph import Node

from kunport.variants.entry import entry
from kunport.variants.fact import Fact
from kunport.variants.paths import Site
from kunport.variants.variant import ABSENT, Example, Found, Variant

KEY, SPAN = "attention.qk_norm", "attention.qk_norm_span"
SWITCHES = r"qk_?(layer_?)?norm|norm_?qk|use_qk"


def read(site: Site) -> Found:
    """The place and the span; opaque where queries and keys differ."""
    if (bare := site.bare) is not None:
        yield from ((key, bare) for key in (KEY, SPAN))
        return
    model = site.layer.model
    hidden = site.query.unread_norm or site.key.unread_norm
    if hidden is not None:
        yield from ((key, model.opaque(hidden)) for key in (KEY, SPAN))
        return
    found = {(_place(site, rotated), _span(site, norm)) for norm, rotated in site.query.norms + site.key.norms}
    if unwrap(site.fact.kv_heads) == 1 and site.query.norms:  # over one head, or over all one of them
        found = {(_place(site, rotated), _span(site, norm)) for norm, rotated in site.query.norms}
        found |= {(_place(site, rotated), next(iter(found))[1]) for _, rotated in site.key.norms}
    if not found:
        yield KEY, model.fact(None, site.fact.where, SWITCHES)
        return
    norm = (site.query.norms or site.key.norms)[0][0]
    unread = site.query.angles if not site.query.ropes else ()
    one = not site.key.layers and bool(site.query.norms) != bool(site.key.norms)
    if len(found) > 1 or unread or one:
        alone = f"only {'queries' if site.query.norms else 'keys'} are normalised"
        differ = alone if one else "queries and keys are normalised differently"
        why = f"a norm beside a rotation that kunport does not know ({unread[0].where})" if unread else differ
        fact = Fact(None, norm.where, reason=f"{norm.where}: {why}")
        yield from ((key, fact) for key in (KEY, SPAN))
        return
    place, span = found.pop()
    yield KEY, model.fact(place, norm.where, SWITCHES)
    if span:
        yield SPAN, model.fact(span, norm.where, SWITCHES)
    else:
        yield SPAN, model.opaque(model.index.nodes[norm.output], "it runs over neither one head nor all of them")


def _place(site: Site, rotated: bool) -> str:
    if rotated:
        return "before_rope"
    return "after_rope" if site.query.ropes or site.key.ropes else "no_rope"


def _span(site: Site, norm: Norm) -> str:
    """What a norm runs over; "" for what has no name."""
    if unwrap(norm.size) == unwrap(site.fact.head_dim):
        return "head"
    read, stream = (site.layer.model.index.nodes.get(each) for each in (norm.input, entry(site.layer) or -1))
    return "all_heads" if _tokens(read) == _tokens(stream) else ""


def _tokens(node: Node | None) -> int | None:
    """How many vectors a tensor holds: of one that has a vector for each token, as many as there are tokens."""
    return None if node is None or not node.shape else math.prod(unwrap(size) for size in node.shape[:-1])


VARIANT = Variant(
    keys={KEY: "null, before_rope, after_rope or no_rope", SPAN: "head or all_heads"},
    scope="attention",
    read=read,
    examples=(
        Example("qwen3", "before_rope", KEY),
        Example("qwen3", "head", SPAN),
        Example("olmo2", "all_heads", SPAN),
        Example("llama", None, KEY),
        Example("llama", ABSENT, SPAN),
        Example("cohere", None, KEY, fields=("use_qk_norm",)),
    ),
)

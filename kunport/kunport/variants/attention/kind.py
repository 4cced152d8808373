"""How a layer mixes tokens.

`softmax` is attention by softmax over scores of queries and keys. `mla` is the same with keys and values that a
projection makes from one normalised latent vector a token (multi-head latent attention, arXiv:2405.04434). Others are
named as in the field: `differential`, `linear`, `gated_delta`, `mamba`, `mamba2`, `rg_lru`, `rwkv`, `mlstm`,
`short_convolution`. `none` is a layer in which no token sees another. Where a mixer stands beside attention, this is
the attention's kind, and `state` names the other's.
"""

from __future__ import annotations

from kunport_codegen.graph import Node

from kunport.variants.fact import depending
from kunport.variants.model import Layer
from kunport.variants.paths import Site, sites
from kunport.variants.variant import Example, Found, Variant

KEY = "attention.kind"


def read(layer: Layer) -> Found:
    """The kinds of all attentions and mixers; opaque where something else mixes tokens as well."""
    if hidden := hidden_mixing(layer):
        yield KEY, layer.model.opaque(hidden[0])
        return
    places = {(kind_of(site), site.fact.where) for site in sites(layer)}
    places = places or {(mixer.kind, mixer.where) for mixer in layer.facts.get("Mixer", [])}
    kinds = sorted({kind for kind, _ in places})
    where = min((where for _, where in places), key=str, default=layer.frame.where)
    frames = [fact.frame for fact in (*layer.attentions, *layer.facts.get("Mixer", []))]
    chosen = set[str]().union(*map(layer.model.chosen, frames))
    yield from depending({KEY: layer.model.fact("+".join(kinds) or "none", where)}, chosen).items()


def hidden_mixing(layer: Layer) -> list[Node]:
    """What mixes tokens in a way without a name: beside a recognised attention, a convolution or a choice is none."""
    known = ("conv1d", "topk") if layer.attentions else ()
    return [node for node in layer.unread_mixing if node.op not in known]


def kind_of(site: Site) -> str:
    """The kind of an attention that recognition found."""
    named: str | None = getattr(site.fact, "kind", None)
    if named is not None and named != "softmax":
        return named
    if site.onward.differential is not None:
        return "differential"
    return "mla" if site.key.latent and site.value.latent else "softmax"


VARIANT = Variant(
    keys={KEY: "the kind's name"},
    scope="layer",
    read=read,
    examples=(
        Example("llama", "softmax"),
        Example("deepseek_v3", "mla"),
        Example("bitnet", "softmax"),
        Example("diffllama", "differential"),
    ),
)

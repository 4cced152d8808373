"""Attention: heads, projections, scores, masks."""

from __future__ import annotations

from collections.abc import Iterator

from kunport_codegen.expression import unwrap
from kunport_codegen.facts import Attention
from kunport_codegen.graph import Module, Node

from kunport.description.findings import Finding
from kunport.description.view import View, inside_layer, layer_of, show


def describe(view: View) -> Iterator[Finding]:
    """Each attention's heads, scale and mask, then its projections."""
    for fact in view.facts.attentions:
        for text, usual in _parts(fact):
            yield Finding(text, fact.where, view.layer(fact.frame), usual)
        yield from _projections(view, fact)


def _parts(fact: Attention) -> Iterator[tuple[str, bool]]:
    heads, kv_heads = unwrap(fact.heads), unwrap(fact.kv_heads)
    shared = f" that share {show(fact.kv_heads)} key-value heads" if kv_heads != heads else ""
    yield f"{show(fact.heads)} heads of {show(fact.head_dim)}{shared}", True
    if unwrap(fact.value_dim) != unwrap(fact.head_dim):
        yield f"values of {show(fact.value_dim)} elements", False
    if abs(unwrap(fact.scale) - unwrap(fact.head_dim) ** -0.5) > 1e-9:
        yield f"scores multiplied by {show(fact.scale)}, not by 1 / sqrt(head size)", False
    if fact.softcap is not None:
        yield f"scores capped by tanh at {show(fact.softcap)}", False
    if fact.window is not None:
        yield f"{fact.mask} mask: the last {show(fact.window)} keys", False
    elif fact.mask != "causal":
        yield f"{fact.mask} mask", False
    if fact.sinks is not None:
        yield f"a learned sink for each head ({inside_layer(fact.sinks)})", False
    if not fact.upcast:
        yield "softmax in the model's own dtype", False


def _projections(view: View, fact: Attention) -> Iterator[Finding]:
    """Which linear layers make query, key and value, and which have a bias."""
    layer = view.layer(fact.frame)
    weights = [_sources(view, tensor) for tensor in (fact.query, fact.key, fact.value)]
    modules = [view.graph.modules[path] for path in dict.fromkeys(path for each in weights for path in each)]
    if len(modules) == 1:
        text = f"query, key and value from one projection ({inside_layer(modules[0].path)})"
        yield Finding(text, modules[0].where, layer, usual=False)
    biased = [module for module in modules if has_bias(module)]
    if biased:
        names = ", ".join(inside_layer(module.path) for module in biased)
        yield Finding(f"bias in {names}", biased[0].where, layer, usual=False)


def _sources(view: View, tensor: int) -> list[str]:
    """Modules of the linear layers that a query, key or value comes from, within its own layer."""

    def other(node: Node) -> bool:
        return node.op == "embedding"

    layer = view.layer(view.index.nodes[tensor].frame)
    owners = (weight.rpartition(".")[0] for weight in view.weights(tensor, other))
    return [owner for owner in owners if layer_of(owner) == layer and owner in view.graph.modules]


def has_bias(module: Module) -> bool:
    """Whether a module has a bias of its own."""
    return "bias" in module.parameters

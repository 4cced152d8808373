"""The MLPs outside of experts: activation, gate, sizes, biases."""

from __future__ import annotations

from collections.abc import Iterator

from kunport_codegen.facts import Activation
from kunport_codegen.graph import Location, refs

from kunport.description.attention import has_bias
from kunport.description.findings import Finding
from kunport.description.view import View, inside_layer, show


def describe(view: View) -> Iterator[Finding]:
    """One finding for each activation that is not an expert's, then its projections."""
    experts = {node for fact in view.facts.experts for node in fact.nodes}
    for fact in view.facts.activations:
        if fact.output in experts or fact.output not in view.index.live:
            continue
        shape = view.index.nodes[fact.output].shape
        gated, size = _gated(view, fact), show(shape[-1]) if shape else "?"
        text = f"gated {fact.name} over {size} elements" if gated else f"{fact.name} over {size} elements, no gate"
        yield Finding(text, _where(view, fact), view.layer(fact.frame), usual=gated and fact.name == "silu")
        yield from _projections(view, fact, gated)


def _where(view: View, fact: Activation) -> Location:
    """The line of the model: where it calls the activation, if that is a module of the library."""
    frame = view.graph.frames[fact.frame]
    return frame.where if frame.kind == "module" and not view.graph.modules[frame.path].children else fact.where


def _gated(view: View, fact: Activation) -> bool:
    """Whether the activation's result multiplies another projection."""
    users = (view.index.nodes.get(user) for user in view.index.users.get(fact.output, ()))
    return any(user is not None and user.op == "mul" and len(set(refs(user.args))) == 2 for user in users)


def _projections(view: View, fact: Activation, gated: bool) -> Iterator[Finding]:
    """A projection that makes both halves, and biases, of the linear layers around the activation."""
    owner = view.path(fact.frame)
    if owner in view.graph.modules and not view.graph.modules[owner].children:  # the activation is a module itself
        owner = owner.rpartition(".")[0]
    modules = view.projections.get(owner, [])
    if gated and len(modules) == 2:
        text = f"both halves of the gate from one projection ({inside_layer(modules[0].path)})"
        yield Finding(text, modules[0].where, view.layer(fact.frame), usual=False)
    biased = [module for module in modules if has_bias(module)]
    if biased:
        names = ", ".join(inside_layer(module.path) for module in biased)
        yield Finding(f"bias in {names}", biased[0].where, view.layer(fact.frame), usual=False)

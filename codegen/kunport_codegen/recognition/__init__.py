"""From a graph of operators to the facts that have a name in the field.

Recognition goes by dataflow alone: classes and variables may be named anything. What is not exactly one of the known
formulas is no fact, and is then emitted as the plain operators it is made of.
"""

from __future__ import annotations

from kunport_codegen.facts import Facts
from kunport_codegen.graph import Graph

from .activations import find_activations
from .attention import find_attentions
from .carrying import NotCarriedError, carry
from .experts import find_experts
from .fused_attention import find_fused_attentions
from .gathered import find_gathered
from .index import Index
from .listed_experts import find_listed_experts
from .mixers import find_mixers
from .norms import find_norms
from .repeats import repeats_of
from .ropes import find_ropes
from .states import find_states
from .tables import find_tables


def recognize(graph: Graph, index: Index | None = None) -> Facts:
    """The facts of a graph, each in order of execution; ``index`` is the graph's, where the caller has made one.

    Layers that repeat another are not looked into: they have its facts.
    """
    index = Index(graph) if index is None else index
    repeats = repeats_of(index)
    try:
        with index.without(repeats.nodes):
            return carry(index, repeats, find_all(index))
    except NotCarriedError:
        return find_all(index)


def find_all(index: Index) -> Facts:
    """The facts of every layer that the index does not leave out, each found anew."""
    tables = [*find_tables(index), *find_gathered(index)]
    mixers = find_mixers(index)
    return Facts(
        norms=find_norms(index),
        tables=tables,
        ropes=find_ropes(index, tables),
        attentions=sorted((*find_attentions(index), *find_fused_attentions(index)), key=lambda each: each.output),
        experts=find_experts(index),
        listed_experts=find_listed_experts(index),
        activations=find_activations(index),
        mixers=mixers,
        states=find_states(index, mixers),
    )


__all__ = ["find_all", "recognize"]

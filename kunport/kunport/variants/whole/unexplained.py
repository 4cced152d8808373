"""What a layer, or the model outside of its layers, computes that no other key states.

`[]` where every operator belongs to something that has a name here, but for views of a tensor, casts, and what depends
on sizes and masks alone. Otherwise the fact is opaque, and its reason names all that do not, with their lines: a
behaviour that is not recognised is said to be there. Layers that run in another way than each once, in order, are named
as well, rotations by the negative angle, positions that are changed before they are used, attention without a causal
mask, and a norm right after another one.
"""

from __future__ import annotations

from collections.abc import Iterator

from kunport_codegen.facts import Norm
from kunport_codegen.graph import Location, Node
from kunport_codegen.recognition.index import is_cast

from kunport.variants.claims import silencing, unexplained
from kunport.variants.claims.positions import bent
from kunport.variants.claims.runs import irregular_runs
from kunport.variants.fact import Fact
from kunport.variants.model import VIEWS, Layer, Model
from kunport.variants.paths import sites
from kunport.variants.rotations import backwards
from kunport.variants.variant import Example, Found, Variant

KEY = "unexplained"
PROBLEM = "no fact states what these do: "  # before the lines
SEPARATOR = "; "  # between them


def read(model: Model, layer: Layer | None) -> Found:
    """Nothing left, or what is."""
    lines = list(dict.fromkeys(f"{what} ({where})" for what, where in _left(model, layer)))
    if not lines:
        where = layer.frame.where if layer is not None else model.graph.modules[""].where
        yield KEY, model.fact([], where, "", *silencing(model, layer))
        return
    where = next(where for _, where in _left(model, layer))
    yield KEY, Fact(None, where, reason=PROBLEM + SEPARATOR.join(lines))


def _left(model: Model, layer: Layer | None) -> Iterator[tuple[str, Location]]:
    """What is not explained, and where."""
    for node in unexplained(model, layer):
        yield _name(model, layer, node), node.where
    if layer is None:
        yield from irregular_runs(model)
        yield from (("positions that are changed by " + node.op, node.where) for node in bent(model))
        yield from (
            ("a norm right after a norm", norm.where) for norm in model.facts.norms if _follows_norm(model, norm)
        )
        return
    for site in sites(layer):
        yield from (("a rotation by the negative angle", rope.where) for rope in backwards(site))
        if site.fact.mask == "bidirectional":
            yield "an attention in which a token sees those after it", site.fact.where


def _follows_norm(model: Model, norm: Norm) -> bool:
    """Whether a norm outside of the layers is given what another one makes: in a layer, the residual order says so."""
    node = model.index.nodes.get(norm.input)
    if model.layer_of(model.index.nodes[norm.output]) is not None:
        return False
    while node is not None and node.id not in model.norm_of_output and (node.op in VIEWS or is_cast(node)):
        node = model.index.producer(node.args[0])
    return node is not None and node.id in model.norm_of_output and model.layer_of(node) is None


def _name(model: Model, layer: Layer | None, node: Node) -> str:
    """The operator, with the parameter that it applies."""
    paths = (path for arg in node.args if (path := model.parameter(arg)) is not None)
    path = next(paths, None)
    if node.op == "to" and node.dtype is not None:
        return f"a cast to {node.dtype.name}"
    if path is None:
        return node.op
    return f"{node.op} of {layer.inside(path) if layer is not None else path}"


VARIANT = Variant(
    keys={KEY: "[]; never anything else, since what is left is opaque"},
    scope="everywhere",
    read=read,
    examples=(
        Example("llama", []),
        Example("deepseek_v3", [], layer=3),
        Example("diffllama", []),
    ),
)

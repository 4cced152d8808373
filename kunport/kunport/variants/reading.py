"""From a graph to facts: every variant of the catalogue is read in every layer; layers that agree are one kind."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from kunport_codegen.expression import fields_of
from kunport_codegen.facts import Facts as Recognised
from kunport_codegen.facts import Norm
from kunport_codegen.graph import Graph, Guard, Location, Node
from kunport_codegen.recognition import recognize
from kunport_codegen.recognition.repeats import repeats_of

from kunport.variants.catalogue import catalogue
from kunport.variants.claims import choosing
from kunport.variants.fact import Fact, Facts, LayerKind, ModelFacts, depending
from kunport.variants.model import Layer, Model
from kunport.variants.modules import made_alike
from kunport.variants.paths import sites
from kunport.variants.unreached import unreached_layers, unreached_norms
from kunport.variants.variant import Variant

if TYPE_CHECKING:
    from kunport_codegen.lowering.selection import Selector


def read_facts(graph: Graph, recognised: Recognised | None = None) -> ModelFacts:
    """The facts of a graph.

    Args:
        graph: a model as the analysis reads it.
        recognised: what `recognize` found in it, if the caller has that already.
    """
    return facts_of(Model(graph, recognize(graph) if recognised is None else recognised))


def facts_of(model: Model) -> ModelFacts:
    """The facts of a graph that is sorted into layers already."""
    graph = model.graph
    variants = [entry.variant for entry in catalogue()]
    by_layer = list(_facts_by_layer(model, variants))
    for stack in dict.fromkeys(layer.stack for layer in model.layers):
        _explain(graph, [facts for layer, facts in by_layer if layer.stack == stack])
    by_layer = [(layer, _derived(graph, facts)) for layer, facts in by_layer]
    kinds = (*_kinds(by_layer), *unreached_layers(model, variants))
    whole = _derived(graph, _model_facts(model, variants))
    return ModelFacts(graph.architecture, graph.model_type, whole, kinds)


def _derived(graph: Graph, facts: Facts) -> Facts:
    """Facts with the fields that the configuration's class computes theirs from."""
    sources, found = graph.derived, dict(facts)
    for key, fact in facts.items():
        more = {other for field in fact.fields if field in sources for other in sources[field]}
        if more:
            found[key] = replace(fact, fields=tuple(sorted({*fact.fields, *more})))
    return found


def _facts_by_layer(model: Model, variants: Iterable[Variant]) -> Iterator[tuple[Layer, Facts]]:
    """The facts of every layer; one that repeats another, with modules that were made the same way, has its facts."""
    calls = repeats_of(model.index).calls
    read: dict[int, tuple[Layer, Facts]] = {}
    for layer in model.layers:
        first = read.get(calls.get(layer.frame.id, -1))
        if first is None or not _same_facts(layer, *first):
            first = layer, _layer_facts(layer, variants)
        read[layer.frame.id] = first
        yield layer, dict(first[1])


def _same_facts(layer: Layer, first: Layer, facts: Facts) -> bool:
    """Whether a layer that repeats another has its facts: they say nothing of the number of a layer."""
    shared = facts.get("attention.kv_shared_from")
    return (shared is None or shared.value is None) and made_alike(layer.model.graph.modules, first.path, layer.path)


def _layer_facts(layer: Layer, variants: Iterable[Variant]) -> Facts:
    found: Facts = {}
    for variant in variants:
        if variant.scope == "layer":
            found.update(depending(dict(variant.read(layer)), layer.model.chosen(layer.frame.id)))
        elif variant.scope == "attention":
            found.update(_attention_facts(layer, variant))
        elif variant.scope == "experts":
            found.update(_expert_facts(layer, variant))
        elif variant.scope == "everywhere":
            found.update(variant.read(layer.model, layer))
    norms = [variant for variant in variants if variant.scope == "norm"]
    found.update(_norm_facts(layer.model, layer.norms, layer.nodes, norms, layer))
    return found


def _attention_facts(layer: Layer, variant: Variant) -> Facts:
    """What all attentions of a layer agree on; opaque where they do not, or where one was not recognised."""
    model = layer.model
    readings = [depending(dict(variant.read(site)), model.chosen(site.fact.frame)) for site in sites(layer)]
    if not readings:
        hidden = layer.unread_mixing if not layer.facts.get("Mixer") else []
        return {key: model.opaque(hidden[0]) for key in variant.keys} if hidden else {}
    return _agreed(readings, "the attentions of this layer differ")


def _expert_facts(layer: Layer, variant: Variant) -> Facts:
    chosen = layer.model.chosen
    readings = [
        depending(dict(variant.read(layer, fact)), chosen(fact.frame)) for fact in layer.facts.get("Experts", [])
    ]
    if not readings:
        hidden = layer.unread_routing or choosing(layer.model, layer)
        return {key: layer.model.opaque(hidden[0]) for key in variant.keys} if hidden else {}
    return _agreed(readings, "the routers of this layer differ")


def _agreed(readings: list[Facts], otherwise: str) -> Facts:
    found = dict(readings[0])
    for reading in readings[1:]:
        for key, fact in reading.items():
            known = found.setdefault(key, fact)
            if known.value != fact.value:
                found[key] = Fact(None, known.where, reason=f"{known.where}, {fact.where}: {otherwise}")
    return found


def _norm_facts(
    model: Model, norms: list[Norm], nodes: list[Node], variants: list[Variant], layer: Layer | None
) -> Facts:
    """The keys of every norm, by the name of its module; norms that nobody recognised are opaque."""
    found: Facts = {}
    for norm in norms:
        name = _name(model, norm, layer)
        reading = {f"norm[{name}].{key}": fact for variant in variants for key, fact in variant.read(model, norm)}
        reading = depending(reading, model.chosen(norm.frame))
        found.update(_agreed([{key: found.get(key, fact) for key, fact in reading.items()}, reading], "norms differ"))
    for node in nodes:
        if model.hides_norm(node):
            path = model.paths[node.frame]
            name = (layer.inside(path) if layer is not None else path) or _call(model, node.frame)
            for key in (key for variant in variants for key in variant.keys):
                found.setdefault(key.replace("NAME", name), model.opaque(node))
    return found


def _name(model: Model, norm: Norm, layer: Layer | None) -> str:
    """The path of the norm's module, inside its layer; of its weight, where the module is more than a norm."""
    path = model.paths[norm.frame]
    owner = (norm.weight or "").rpartition(".")[0]
    module = model.graph.modules.get(owner)
    if norm.weight is not None and owner != path and module is not None and not module.children:
        path = owner
    elif norm.weight is not None and (module is None or module.children):
        path = norm.weight
    return (layer.inside(path) if layer is not None else path) or _call(model, norm.frame)


def _call(model: Model, frame: int) -> str:
    """The name of the function that a norm without a module of its own is written in."""
    return model.graph.frames[frame].name.rpartition(".")[2] or "forward"


def _model_facts(model: Model, variants: list[Variant]) -> Facts:
    found: Facts = {}
    for variant in variants:
        if variant.scope == "model":
            found.update(variant.read(model))
        elif variant.scope == "everywhere":
            found.update(variant.read(model, None))
    outside = {node.id for node in model.outside}
    norms = [norm for norm in model.facts.norms if norm.output in outside]
    found.update(_norm_facts(model, norms, model.outside, [each for each in variants if each.scope == "norm"], None))
    return unreached_norms(model, variants) | found


def _explain(graph: Graph, layers: list[Facts]) -> None:
    """Adds the fields that tell the layers of a stack apart to the facts in which those layers differ."""
    keys = {key for facts in layers for key in facts}
    differing = {key for key in keys if len({repr(_value(facts.get(key))) for facts in layers}) > 1}
    if not differing:
        return
    from kunport_codegen.lowering.selection import Selector  # most models do not need it

    selector = Selector(graph, len(layers))
    known: dict[tuple[str, ...], set[str]] = {}
    for key in sorted(differing):  # so that the answer is the same in every process
        values = tuple(repr(_value(facts.get(key))) for facts in layers)
        if values not in known:
            known[values] = _telling(selector, values) or _decided(graph, values) or _chosen(key, layers)
        for facts in layers:
            fact = facts.get(key)
            if fact is not None and not fact.reason:
                facts[key] = replace(fact, fields=tuple(sorted({*fact.fields, *known[values]})))


def _telling(selector: Selector, values: tuple[str, ...]) -> set[str]:
    """The fields that say which layers have which of the values; none where the source itself counts layers."""
    from kunport_codegen.lowering.selection import DifferentLayersError

    fields = set[str]()
    for value in dict.fromkeys(values):
        try:
            fields |= fields_of(selector.test([each == value for each in values]))
        except DifferentLayersError:
            continue
    return {re.sub(r"\[(layer_idx|\d+)\]", "", field) for field in fields}


def _decided(graph: Graph, values: tuple[str, ...]) -> set[str]:
    """The fields of a decision that is taken once for each layer, and whose outcomes tell the values."""
    taken: dict[Location, list[Guard]] = {}
    for guard in graph.guards:
        taken.setdefault(guard.where, []).append(guard)
    for guards in taken.values():
        pairs = {(repr(guard.outcome), value) for guard, value in zip(guards, values, strict=False)}
        outcomes = {outcome for outcome, _ in pairs}
        if len(guards) == len(values) and len(outcomes) == len(pairs) == len(set(values)):
            return {re.sub(r"\[\d+\]", "", field) for guard in guards for field in fields_of(guard.expr)}
    read = {field for guard in graph.guards for field in fields_of(guard.expr)}
    for field in sorted(read):  # a letter for each layer, as in "M-*-M"
        letters = graph.config.get(field)
        if isinstance(letters, str) and len(letters) == len(values):
            pairs = set(zip(letters, values, strict=True))
            if len(pairs) == len(set(letters)):
                return {field}
    return set()


def _chosen(key: str, layers: list[Facts]) -> set[str]:
    """The fields that the fact depends on in some layer, where its value is one that no layer without them has."""
    dependent = [fact for facts in layers if (fact := facts.get(key)) is not None and fact.fields]
    others = {repr(_value(fact)) for facts in layers if (fact := facts.get(key)) is None or not fact.fields}
    if any(repr(_value(fact)) in others for fact in dependent):
        return set()
    return {field for fact in dependent for field in fact.fields}


def _value(fact: Fact | None) -> object:
    return None if fact is None else (fact.value, fact.reason != "")


def _kinds(by_layer: list[tuple[Layer, Facts]]) -> tuple[LayerKind, ...]:
    """Layers of a stack with equal facts, reasons and lines aside where those are opaque."""
    kinds: dict[tuple[str, tuple[object, ...]], list[int]] = {}
    facts_of: dict[tuple[str, tuple[object, ...]], Facts] = {}
    for layer, facts in by_layer:
        same = tuple((key, repr(fact.value), fact.fields, fact.reason) for key, fact in facts.items())
        kinds.setdefault((layer.stack, same), []).append(layer.number)
        facts_of.setdefault((layer.stack, same), facts)
    return tuple(LayerKind(key[0], tuple(numbers), facts_of[key]) for key, numbers in kinds.items())

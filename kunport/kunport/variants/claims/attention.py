"""What the facts of an attention explain: its projections, what lies between them and it, and what follows it."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from kunport_codegen.expression import unwrap
from kunport_codegen.graph import Ref, refs
from kunport_codegen.recognition.rules import Array

from kunport.variants.claims.places import Places, follow, moved
from kunport.variants.claims.products import of_gate, of_parameters, of_products
from kunport.variants.gates import gate_of
from kunport.variants.model import Model
from kunport.variants.paths import Site, Way
from kunport.variants.projections import Projection
from kunport.variants.rotations import shared


def of_site(site: Site) -> Iterator[int]:
    """The operators that the facts of one attention state."""
    layer, fact = site.layer, site.fact
    model = layer.model
    for way, tensor in ((site.query, fact.query), (site.key, fact.key), (site.value, fact.value)):
        yield from of_products(model, (*way.projections, *way.deeper))
        yield from way.added
        yield from (node.id for node in way.clips)
        yield from _of_way(site, way, tensor)
    yield from site.query.scalings
    yield from site.key.scalings
    yield from (node for rope in shared(site) for node in rope.nodes)
    yield from of_products(model, site.onward.projections)
    for each in site.onward.projections:
        yield from _of_result(site, each)
    if (gate := gate_of(site)) is not None:
        yield from of_gate(layer, gate)
    if fact.selection is not None:
        yield from _of_selection(site, fact.selection)
    if site.onward.differential is not None:  # the factor on the second part, which comes from parameters alone
        yield from _of_difference(site)
        yield from of_parameters(layer)


def _of_way(site: Site, way: Way, tensor: int) -> Iterator[int]:
    """The moves from the projections to an operand, if they put whole heads side by side and keep each token."""
    model = site.layer.model
    sources = [each.node.id for each in way.projections]
    if not sources or not moved(model, tensor, sources, way.same):
        return
    places = follow(model, tensor, sources, way.same)
    if places is None or places.tokens.ndim != 4:
        return
    tokens = _rows(model, way.projections)
    transposed = site.fact.key_transposed and tensor == site.fact.key
    paired = site.onward.differential is not None and tensor == site.fact.value  # each part has half of the heads
    made = None if paired else _heads_made(site, way, places.columns.shape[2 if transposed else 3])
    if places.keep_tokens(tokens, (0, 3 if transposed else 2)) and _heads_in_order(places, transposed, paired, made):
        yield from places.through


def _heads_made(site: Site, way: Way, dim: int) -> int | None:
    """How many heads of ``dim`` elements one projection makes for an operand alone; None where others use it."""
    if len(way.projections) != 1 or way.deeper:
        return None
    source = way.projections[0]
    others = (each for each in (site.query, site.key, site.value) if each is not way)
    if source.weight in {each.weight for other in others for each in other.projections}:
        return None
    width = int(unwrap((source.node.shape or (0,))[-1]))
    return width // dim if width % dim == 0 else None


def _rows(model: Model, projections: list[Projection]) -> int:
    return math.prod(unwrap(size) for size in (projections[0].node.shape or ())[:-1])


def _heads_in_order(places: Places, transposed: bool, any_order: bool, made: int | None) -> bool:
    """Whether every token has the same columns, those of a head in order, and of heads each one's after another's.

    The heads themselves may be in ``any_order``. Where not more are ``made`` than there are, each has to be there.
    """
    columns, sources = places.columns, places.sources
    if transposed:
        columns, sources = np.swapaxes(columns, 2, 3), np.swapaxes(sources, 2, 3)
    first, origin = columns[0, :, 0], sources[0, :, 0]
    if not np.all(columns == first[None, :, None]) or not np.all(sources == origin[None, :, None]):
        return False
    if made is not None and made <= len(first) and len(np.unique(first, axis=0)) != made:
        return False
    return all(_ascending(first, origin == each, any_order) for each in np.unique(origin))


def _ascending(columns: Array, mine: Array, any_order: bool) -> bool:
    """Whether the columns of one source ascend in each head, and from head to head but for heads that repeat."""
    if not np.all(mine == mine[0]):
        return False
    heads = columns[:, mine[0]]
    again = np.all(heads[1:] == heads[:-1], axis=1)
    return bool(np.all(np.diff(heads, axis=1) > 0)) and (
        any_order or bool(np.all(again | (heads[1:, 0] > heads[:-1, -1])))
    )


def _of_result(site: Site, after: Projection) -> Iterator[int]:
    """The moves from the combined heads to the projection that reads them, if they put the heads side by side."""
    model, fact = site.layer.model, site.fact
    read = _operand(model, after)
    shape = [unwrap(size) for size in model.index.nodes[fact.output].shape or ()]
    same = site.onward.same
    if read is None or len(shape) != 4 or not moved(model, read, [fact.output], same):
        return
    places = follow(model, read, [fact.output], same)
    if places is None:
        return
    numbers = places.tokens * shape[-1] + places.columns
    order = np.arange(math.prod(shape)).reshape(shape)
    if fact.heads_first:
        order = np.swapaxes(order, 1, 2)
    if numbers.size == order.size and np.array_equal(numbers.reshape(-1), order.reshape(-1)):
        yield from places.through


def _of_difference(site: Site) -> set[int]:
    """What lies between the parts of a differential attention and the projection that reads their difference."""
    model, found = site.layer.model, set[int]()
    outputs = {fact.output for fact in site.layer.attentions}
    pending = [read for each in site.onward.projections if (read := _operand(model, each)) is not None]
    while pending:
        node = model.index.nodes.get(pending.pop())
        if node is not None and node.id not in found | outputs and model.layer_of(node) is site.layer:
            found.add(node.id)
            pending.extend(model.reads(node))
    return found


def _operand(model: Model, product: Projection) -> int | None:
    """What a projection multiplies its parameter with."""
    operands = [each for each in refs(product.node.args) if model.parameter(Ref(each)) is None]
    return operands[0] if operands else None


def _of_selection(site: Site, choice: int) -> set[int]:
    """What a choice of keys is computed from in its layer: the indexer, which is stated as a whole."""
    layer, found, pending = site.layer, set[int](), [choice]
    model = layer.model
    while pending:
        node = model.index.nodes.get(pending.pop())
        if node is not None and node.id not in found and model.layer_of(node) is layer:
            found.add(node.id)
            pending.extend(model.reads(node))
    return found

"""A residual stream that the first layer casts to float32 is cast before the layers, so that all layers are alike.

Casting to float32 and back changes nothing, so the first layer reads the wide stream as those after it do.
"""

from __future__ import annotations

from kunport_codegen.graph import DType, Ref
from kunport_codegen.lowering.flow import Flow, Op, layer_of, parent, substitute

_WIDE, _MODEL = DType("float32"), DType("model")


def widen_stream(flow: Flow) -> None:
    """Move the cast out of the first layer, where the next one takes a stream in float32 from it."""
    producers = flow.producers()
    for cast in [op for op in flow.ops if _casts(op, _WIDE)]:
        layer, entering = layer_of(cast.owner), cast.args[0].id
        source = producers.get(entering)
        outside = source is not None and source.name != "parameter" and layer_of(source.owner) is None
        if layer is None or layer[1] != 0 or not outside or flow.dtypes.get(entering) != _MODEL:
            continue
        if not _hands_on_wide(flow, producers, layer[0]):
            continue
        narrow = flow.fresh(flow.layouts[entering], _MODEL)
        for op in flow.ops:
            if op is not cast and layer_of(op.owner) == layer:
                op.args = substitute(op.args, lambda value, old=entering, new=narrow: new if value == old else value)
        place = flow.ops.index(cast)
        flow.ops.insert(place + 1, Op("to", (Ref(cast.results[0]), _MODEL), {}, [narrow], cast.owner, cast.where))
        cast.owner = parent(layer[0])
    flow.settle()


def _hands_on_wide(flow: Flow, producers: dict[int, Op], path: str) -> bool:
    """Whether the second layer of a list reads something in float32 that the first one made."""
    read = {value for op in flow.ops if layer_of(op.owner) == (path, 1) for value in op.inputs()}
    made = {value for value in read if value in producers and layer_of(producers[value].owner) == (path, 0)}
    return any(flow.dtypes.get(value) == _WIDE for value in made)


def _casts(op: Op, dtype: DType) -> bool:
    return op.name == "to" and op.args[1:] == (dtype,) and isinstance(op.args[0], Ref)

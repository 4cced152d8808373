"""Attention masks: values of a kind, not interpreted code, for what they hide is all that matters to the graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kunport_codegen.expression import unwrap

from kunport.analysis.intrinsics.registry import native
from kunport.analysis.shapes import TensorType, sizes
from kunport.analysis.values import Instance, Tensor, Value

if TYPE_CHECKING:
    from kunport.analysis.interpreter import Interpreter


def _mask(name: str, kind: str, window: str | None = None) -> None:
    @native(f"transformers.masking_utils.{name}", raw=True)
    def make(
        interpreter: Interpreter,
        config: Value = None,
        inputs_embeds: Value = None,
        attention_mask: Value = None,
        past_key_values: Value = None,
        *rest: Value,
        **options: Value,
    ) -> Value:
        embeds = options.pop("input_embeds", inputs_embeds)
        if attention_mask is not None and not _hides_nothing(interpreter, attention_mask):
            if isinstance(attention_mask, Tensor) and len(attention_mask.type.shape) == 4:
                return attention_mask
            return interpreter.unknown("a mask that hides padding", attention_mask, embeds)
        changes = ("or_mask_function", "and_mask_function", "block_sequence_ids")
        if changed := [each for each in changes if options.get(each) is not None]:
            return interpreter.unknown(f"a mask changed by {' and '.join(changed)}", embeds)
        size = options.get("sliding_window") if window == "sliding_window" else None
        if size is None and window is not None:
            size = interpreter.attribute(config, window)
        past = cached_length(interpreter, past_key_values, window is not None, options.get("layer_idx"))
        return _emit_mask(interpreter, kind, size, embeds, past)


def _hides_nothing(interpreter: Interpreter, attention_mask: Value) -> bool:
    """Whether a padding mask is all ones, because the model itself made it so."""
    made = (node for node in reversed(interpreter.trace.nodes) if node.id == getattr(attention_mask, "id", None))
    return next((node.op for node in made), "") == "ones"


def cached_length(interpreter: Interpreter, cache: Value, windowed: bool, layer: Value = None) -> Value:
    """How many keys the layers that a mask is for hold: the named one, or the first of its kind, or the first.

    It is read from the keys themselves. What the cache would say of itself is another word for it, but decides on
    whether the window is full.
    """
    layers = cache.attributes.get("layers") if isinstance(cache, Instance) else None
    if not isinstance(layers, list):
        return 0
    kinds = [unwrap(each) for each in interpreter.iterate(interpreter.attribute(cache, "is_sliding"))]
    first = unwrap(layer) if layer is not None else kinds.index(windowed) if windowed in kinds else 0
    for each in (*layers[first : first + 1], *layers):
        if "keys" in each.attributes:
            keys = each.attributes["keys"]
            return keys.type.shape[-2] if isinstance(keys, Tensor) and len(keys.type.shape) > 1 else 0
    return 0


def _emit_mask(interpreter: Interpreter, kind: str, window: Value, embeds: Value, past: Value) -> Value:
    if not isinstance(embeds, Tensor):
        return interpreter.unknown("a mask for embeddings that are not known", embeds)
    batch, length = embeds.type.shape[:2]
    type_ = TensorType((batch, 1, length, sizes.add(past, length)), embeds.type.dtype)
    held = None if window is None or unwrap(window) is None else window
    node = interpreter.trace.emit("mask", (kind, held), kind=type_)
    return Tensor(node.id, type_)


_mask("create_causal_mask", "causal")
_mask("create_sliding_window_causal_mask", "sliding", "sliding_window")
_mask("create_chunked_causal_mask", "chunked", "attention_chunk_size")
_mask("create_bidirectional_mask", "bidirectional")


@native("transformers.masking_utils.create_recurrent_attention_mask", raw=True)
def _recurrent_mask(
    interpreter: Interpreter,
    config: Value = None,
    inputs_embeds: Value = None,
    attention_mask: Value = None,
    **rest: Value,
) -> Value:
    return attention_mask

"""Transformers' own machinery: base classes, masks, the attention registry, model outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kunport_codegen.expression import unwrap
from kunport_codegen.graph import DType

from kunport.analysis.interpreter.signals import NotUnderstoodError, RaisedError
from kunport.analysis.intrinsics.modules import module
from kunport.analysis.intrinsics.registry import DEVICE, NAMES, member, native, native_class
from kunport.analysis.shapes import TensorType
from kunport.analysis.values import Instance, Native, NativeClass, Tensor, Value

if TYPE_CHECKING:
    from kunport.analysis.interpreter import Interpreter

# Base classes.
checkpointing_layer = native_class("transformers.modeling_layers.GradientCheckpointingLayer", module)
checkpointing_layer.members["gradient_checkpointing"] = False
pretrained = native_class("transformers.modeling_utils.PreTrainedModel", module)
pretrained.members.update(
    gradient_checkpointing=False, is_gradient_checkpointing=False, dtype=DType("model"), device=DEVICE
)
for _name in (
    "transformers.generation.utils.GenerationMixin",
    "transformers.utils.hub.PushToHubMixin",
    "transformers.modeling_utils.EmbeddingAccessMixin",
    "transformers.modeling_utils.ModuleUtilsMixin",
    "transformers.integrations.peft.PeftAdapterMixin",
):
    native_class(_name)
NAMES["transformers.utils.hub.PushToHubMixin"].members["push_to_hub"] = Native(
    "push_to_hub", lambda *args: None, lazy=True
)
NAMES["transformers.generation.GenerationMixin"] = NAMES["transformers.generation.utils.GenerationMixin"]


@member(pretrained, "__init__", raw=True)
def _init(interpreter: Interpreter, this: Instance, config: Value = None, *args: Value, **options: Value) -> None:
    this.attributes["config"] = config
    this.attributes["name_or_path"] = ""
    this.attributes["warnings_issued"] = {}


@member(
    pretrained, "post_init", "init_weights", "_init_weights", "tie_weights", "gradient_checkpointing_enable", raw=True
)
@member(pretrained, "warn_if_padding_and_no_attention_mask", "_backward_compatibility_gradient_checkpointing", raw=True)
@member(pretrained, "enable_input_require_grads", "_initialize_weights", "register_for_auto_class", raw=True)
def _nothing(interpreter: Interpreter, this: Instance, *args: Value, **options: Value) -> None:
    return None


@member(pretrained, "get_input_embeddings")
def _input_embeddings(interpreter: Interpreter, this: Instance) -> Value:
    for name in ("embed_tokens", "embeddings", "wte", "word_embeddings", "embed_in", "tok_embeddings"):
        if name in this.attributes:
            return this.attributes[name]
    inner = this.attributes.get(interpreter.attribute(this, "base_model_prefix"))
    if isinstance(inner, Instance):
        return interpreter.call(interpreter.attribute(inner, "get_input_embeddings"), [], {})
    raise RaisedError("NotImplementedError", "get_input_embeddings")


@member(pretrained, "get_output_embeddings")
def _output_embeddings(interpreter: Interpreter, this: Instance) -> Value:
    return this.attributes.get("lm_head")


@member(pretrained, "get_head_mask")
def _head_mask(interpreter: Interpreter, this: Instance, head_mask: Value, layers: Value, *rest: Value) -> Value:
    if head_mask is None:
        return [None] * unwrap(layers)
    raise NotUnderstoodError("a head mask")


# Helpers that ask how the model is being run: eagerly, without a cache, on one device.
_FALSE = (
    *("transformers.utils.import_utils.is_torchdynamo_compiling", "transformers.utils.is_torchdynamo_compiling"),
    *("transformers.utils.import_utils.is_tracing", "transformers.utils.import_utils.is_torch_fx_proxy"),
    *("transformers.utils.generic.is_flash_attention_requested", "transformers.utils.import_utils.is_jit_tracing"),
    *(
        "transformers.utils.import_utils.is_torchdynamo_exporting",
        "transformers.integrations.deepspeed.is_deepspeed_zero3_enabled",
    ),
    *("transformers.integrations.fsdp.is_fsdp_managed_module", "transformers.utils.import_utils.is_fake_tensor"),
)
for _name in _FALSE:
    NAMES[_name] = Native(_name, lambda interpreter, *args, **kwargs: False, raw=True)
for _name in (
    "transformers.utils.import_utils.torch_compilable_check",
    "transformers.utils.torch_compilable_check",
    "transformers.utils.generic.maybe_autocast",
    "transformers.utils.import_utils.requires_backends",
    "transformers.modeling_rope_utils.rope_config_validation",
):
    NAMES[_name] = Native(_name, lambda interpreter, *args, **kwargs: None, raw=True)

# Kernels from the hub are never loaded: the source's own code runs.
for _name in ("lazy_load_kernel", "get_kernel", "use_kernel_forward_from_hub_class"):
    NAMES[f"transformers.integrations.hub_kernels.{_name}"] = Native(
        _name, lambda interpreter, *args, **kwargs: None, raw=True
    )


# The attention registry: in eager mode each model's own function.
_registry_class = NativeClass("transformers.modeling_utils.AttentionInterface")
attention_functions = Instance(_registry_class)
NAMES["transformers.modeling_utils.ALL_ATTENTION_FUNCTIONS"] = attention_functions
NAMES["transformers.modeling_utils.AttentionInterface"] = _registry_class


@member(_registry_class, "get_interface", "get")
def _interface(interpreter: Interpreter, this: Instance, implementation: Value, default: Value = None) -> Value:
    if implementation == "eager" and default is not None:
        return default
    raise NotUnderstoodError(f"the attention implementation {implementation}")


@member(_registry_class, "__getitem__")
def _interface_item(interpreter: Interpreter, this: Instance, implementation: Value) -> Value:
    raise NotUnderstoodError(f"the attention implementation {implementation}, which is not the model's own")


@member(_registry_class, "__setitem__", "register", raw=True)
def _interface_set(interpreter: Interpreter, this: Instance, name: Value, function: Value) -> None:
    """Other implementations are not looked at."""


@member(_registry_class, "keys")
def _interface_keys(interpreter: Interpreter, this: Instance) -> Value:
    return ["sdpa"]


# Masks are values of a kind, not interpreted code: what they hide is all that matters to the graph.


def _mask(name: str, kind: str, window: str | None = None) -> None:
    @native(f"transformers.masking_utils.{name}", raw=True)
    def make(
        interpreter: Interpreter,
        config: Value = None,
        inputs_embeds: Value = None,
        attention_mask: Value = None,
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
        return _emit_mask(interpreter, kind, size, embeds)


def _hides_nothing(interpreter: Interpreter, attention_mask: Value) -> bool:
    """Whether a padding mask is all ones, because the model itself made it so."""
    made = (node for node in reversed(interpreter.trace.nodes) if node.id == getattr(attention_mask, "id", None))
    return next((node.op for node in made), "") == "ones"


def _emit_mask(interpreter: Interpreter, kind: str, window: Value, embeds: Value) -> Value:
    if not isinstance(embeds, Tensor):
        return interpreter.unknown("a mask for embeddings that are not known", embeds)
    batch, length = embeds.type.shape[:2]
    type_ = TensorType((batch, 1, length, length), embeds.type.dtype)
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


# Model outputs: dataclasses whose items are the fields that are not None.
output = native_class("transformers.utils.generic.ModelOutput")


def _present(this: Instance) -> dict[str, Value]:
    return {key: value for key, value in this.attributes.items() if value is not None}


@member(output, "__getitem__", raw=True)
def _output_item(interpreter: Interpreter, this: Instance, key: Value) -> Value:
    bare = interpreter.pin(key) if not isinstance(key, slice) else key
    return this.attributes[bare] if isinstance(bare, str) else tuple(_present(this).values())[bare]


@member(output, "__setitem__", raw=True)
def _output_set(interpreter: Interpreter, this: Instance, key: Value, value: Value) -> None:
    this.attributes[interpreter.pin(key)] = value


_OUTPUT: dict[str, Any] = {
    "__iter__": lambda interpreter, this: list(_present(this)),
    "__len__": lambda interpreter, this: len(_present(this)),
    "__contains__": lambda interpreter, this, key: interpreter.pin(key) in _present(this),
    "keys": lambda interpreter, this: list(_present(this)),
    "values": lambda interpreter, this: list(_present(this).values()),
    "items": lambda interpreter, this: list(_present(this).items()),
    "to_tuple": lambda interpreter, this: tuple(_present(this).values()),
    "get": lambda interpreter, this, key, default=None: _present(this).get(interpreter.pin(key), default),
}
for _name, _function in _OUTPUT.items():
    output.members[_name] = Native(f"transformers.ModelOutput.{_name}", _function, raw=True)

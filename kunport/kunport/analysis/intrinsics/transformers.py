"""Transformers' own machinery: base classes, masks, the attention registry, model outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kunport_codegen.expression import unwrap
from kunport_codegen.graph import DType

from kunport.analysis.interpreter.signals import NotUnderstoodError, RaisedError
from kunport.analysis.intrinsics.modules import module
from kunport.analysis.intrinsics.registry import DEVICE, NAMES, member, native_class
from kunport.analysis.values import Instance, Native, NativeClass, Value

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

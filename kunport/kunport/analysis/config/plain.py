"""A configuration object as plain data."""

from __future__ import annotations

from typing import Any

from kunport_codegen.graph import DType

from kunport.analysis.interpreter import Interpreter
from kunport.analysis.interpreter.attributes import class_member
from kunport.analysis.values import Class, Instance, Opaque, OrderedSet, SourceClass, Unknown, Value

# Attributes that say how a model is run or distributed, and that no saved configuration holds.
_NOT_FIELDS = {
    *("_attn_implementation_internal", "_experts_implementation_internal", "_output_attentions", "_auto_class"),
    *("_name_or_path", "_is_quantized", "ignore_keys_at_rope_validation", "distributed_config"),
    *("base_model_tp_plan", "base_model_pp_plan", "base_model_fsdp_plan", "_heterogeneity_spec"),
}


class Part(dict[str, Any]):
    """The fields of an object inside of the configuration.

    Attributes:
        place: dotted module and name of its class, None where that is not of the source.
    """

    def __init__(self, fields: dict[str, Any], cls: Class) -> None:
        super().__init__(fields)
        self.place = (cls.scope.namespace.dotted, cls.name) if isinstance(cls, SourceClass) else None


def plain_fields(interpreter: Interpreter, config: Instance) -> dict[str, Any]:
    """The fields of the object, and of configurations inside it."""
    fields = {name: _plain(interpreter, value) for name, value in config.attributes.items() if name not in _NOT_FIELDS}
    model_type = class_member(interpreter, config.cls.mro, "model_type")
    if isinstance(model_type, str) and model_type:
        fields["model_type"] = model_type
    if "_heterogeneity_spec" in config.attributes:
        update = interpreter.attribute(config, "_update_heterogeneous_to_dict_output")
        interpreter.call(update, [fields], {})
    return fields


def _plain(interpreter: Interpreter, value: Value) -> Any:
    if isinstance(value, Instance):
        return Part(plain_fields(interpreter, value), value.cls)
    if isinstance(value, DType):
        return value.name
    if isinstance(value, Unknown):
        return Opaque("", value.reason)
    if isinstance(value, OrderedSet | list | tuple):
        return [_plain(interpreter, each) for each in value]
    if isinstance(value, dict):
        return {key: _plain(interpreter, each) for key, each in value.items()}
    return value

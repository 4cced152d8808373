"""The configuration as the modeling code sees it: an object of its class whose values remember their path."""

from __future__ import annotations

from typing import Any

from kunport_codegen.graph import DType

from kunport.analysis.config.intrinsics import BASE
from kunport.analysis.config.old_fields import add_old_defaults
from kunport.analysis.config.plain import Part
from kunport.analysis.interpreter import Interpreter, NotUnderstoodError, RaisedError, enums
from kunport.analysis.interpreter.attributes import MISSING, class_member
from kunport.analysis.interpreter.containers import lift
from kunport.analysis.intrinsics.configurations import configuration, part
from kunport.analysis.values import Class, FieldDict, FieldList, Instance, SourceClass, Value, is_subclass
from kunport.errors import KunportError

# How the analysis runs the model, whatever the configuration says.
_RUN = {
    "_attn_implementation_internal": "eager",
    "_attn_implementation": "eager",
    "_experts_implementation_internal": "eager",
    "_experts_implementation": "eager",
    "_output_attentions": False,
    "output_attentions": False,
    "output_hidden_states": False,
    "return_dict": True,
    "use_return_dict": True,
    "dtype": DType("model"),
    "torch_dtype": DType("model"),
    "use_cache": False,
    "pretraining_tp": 1,
}
configuration.members.update(_RUN)
_SLICES = "pretraining_tp"


def configuration_object(
    interpreter: Interpreter, config: dict[str, Any], config_class: tuple[str, str] | None, path: str = ""
) -> Instance:
    """The configuration as an object of its source class, whose methods and properties are interpreted.

    Args:
        interpreter: which reads the class.
        config: the effective configuration, plain.
        config_class: (dotted module, name) of its class, None for an object without methods.
        path: how expressions name it below ``config``, "" for the configuration itself.
    """
    settings = _object(interpreter, _class(interpreter, config_class, configuration), config, path)
    if config_class is not None and any(not root.package for root in interpreter.names.roots):
        add_old_defaults(interpreter, settings)
    return settings


def _class(interpreter: Interpreter, place: tuple[str, str] | None, default: Class) -> Class:
    """The class of a place (dotted module, name); the default where there is none that can be read."""
    if place is None:
        return default
    try:
        found = interpreter.load(place[0]).get(place[1])
    except (NotUnderstoodError, RaisedError, KeyError) as problem:
        interpreter.trace.note(f"the configuration class {place[1]} cannot be read: {problem}")
        return default
    return found if isinstance(found, SourceClass) else default


def _object(interpreter: Interpreter, cls: Class, config: dict[str, Any], path: str) -> Instance:
    instance = Instance(cls)
    without_class = cls in (configuration, part)
    parts = _parts(interpreter, cls)
    renamed = class_member(interpreter, cls.mro, "attribute_map")
    instance.renamed = dict(renamed) if isinstance(renamed, dict) and renamed else None
    for name, value in config.items():
        inner = f"{path}[{name!r}]" if cls is part else f"{path}.{name}" if path else name
        if isinstance(value, dict) and (without_class or name in parts):
            instance.attributes[name] = _object(interpreter, parts.get(name, part), value, inner)
        else:
            instance.attributes[name] = _value(interpreter, value, inner)
    # Where the class is not Transformers', fields of the run are only seen by who asks for them.
    own = not is_subclass(cls, BASE)
    run = {key: each for key, each in _RUN.items() if not own or key in config}
    if config.get(_SLICES) == run.get(_SLICES):
        run.pop(_SLICES, None)  # the field itself, so that what is decided on it is known to be
    instance.attributes.update(run)
    if (layers := instance.attributes.pop("per_layer_config", None)) is not None:
        interpreter.set_attribute(instance, "per_layer_config", layers)  # its setter derives what each layer reads
    return instance


def _value(interpreter: Interpreter, value: Any, path: str) -> Value:
    """A value of the configuration, objects inside it restored."""
    if isinstance(value, Part):
        cls = _class(interpreter, value.place, part)
        if enums.is_enumeration(cls):
            try:
                return enums.by_value(interpreter, cls, value["value"])
            except RaisedError as problem:
                raise KunportError(f"The field {path} is wrong: {problem}.", "Correct it in config.json.") from None
        return _object(interpreter, cls, value, path)
    if isinstance(value, list) and any(isinstance(each, Part) for each in value):
        items = FieldList(_value(interpreter, each, f"{path}[{position}]") for position, each in enumerate(value))
        items.path = path
        return items
    if isinstance(value, dict) and any(isinstance(each, Part) for each in value.values()):
        fields = FieldDict((key, _value(interpreter, each, f"{path}[{key!r}]")) for key, each in value.items())
        fields.path = path
        return fields
    return lift(value, path)


def _parts(interpreter: Interpreter, cls: Class) -> dict[str, Class]:
    """The classes of a configuration's parts (``text_config``)."""
    parts = class_member(interpreter, cls.mro, "sub_configs")
    if parts is MISSING or not isinstance(parts, dict):
        return {}
    return {name: part for name, part in parts.items() if isinstance(part, SourceClass)}

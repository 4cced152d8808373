"""How a model of custom code is called: what its constructor and its forward take.

A model of Transformers is built from its configuration object and run on ``input_ids``. Other code takes a
dictionary, the hyperparameters one by one, or token ids under any name.
"""

from __future__ import annotations

import ast

from kunport.analysis.config.own_class import ABOUT
from kunport.analysis.interpreter import Interpreter
from kunport.analysis.interpreter.attributes import class_member
from kunport.analysis.intrinsics.configurations import configuration
from kunport.analysis.library.roots import fields_read
from kunport.analysis.parameters import named, positional
from kunport.analysis.values import Bound, Function, Instance, SourceClass, Value
from kunport.errors import KunportError

_TOKENS = ("input_ids", "tokens", "token_ids", "idx", "ids", "x", "inputs", "input", "input_tokens", "src", "input_seq")
# What stands for no past: the place of the first token.
_PLACES = ("start_pos", "start", "offset", "past_length", "past_len", "position_offset", "start_position")
_WHOLE = ("config", "configuration", "conf", "cfg", "args", "params", "hparams", "hp", "hps", "opt", "opts", "options")
_CURE = "Give them with --config FILE, a JSON object of fields."


def build(interpreter: Interpreter, cls: SourceClass, settings: Instance) -> Value:
    """An instance of the model: from the configuration object, or from its fields by name.

    Raises:
        KunportError: the model needs values that nothing gives.
    """
    function = class_member(interpreter, cls.mro, "__init__")
    if not isinstance(function, Function) or isinstance(function.node, ast.Lambda):
        return interpreter.instantiate(cls, [settings], {})
    parameters, fields = function.node.args, settings.attributes
    names, by_position = named(parameters)[1:], positional(parameters)[1:]
    if not names and parameters.vararg is None:
        wild = parameters.kwarg is not None
        given = {name: each for name, each in fields.items() if wild and name not in ABOUT}
        return interpreter.instantiate(cls, [], given)
    if not names or _is_whole(function, names, fields):
        model = interpreter.instantiate(cls, [settings] if by_position or not names else [], {})
        _check_fields(interpreter, cls, settings, names[0] if names else "config")
        return model
    required = [name for name in names if name not in function.defaults]
    if missing := [name for name in required if name not in fields]:
        raise KunportError(
            f"{cls.name} is built from {', '.join(required)}, and nothing gives {', '.join(missing)}.", _CURE
        )
    wild = parameters.kwarg is not None
    given = {name: each for name, each in fields.items() if name in names or (wild and name not in ABOUT)}
    return interpreter.instantiate(cls, [], given)


def _is_whole(function: Function, names: list[str], fields: dict[str, Value]) -> bool:
    """Whether the first parameter is the configuration as a whole, not one field of several."""
    first = names[0]
    if first in fields and not isinstance(fields[first], dict | Instance):
        return False
    if first.rpartition("_")[2] in _WHOLE or first.endswith(("config", "args", "cfg")):
        return True
    holders = [each.value for each in ast.walk(function.node) if isinstance(each, ast.Attribute | ast.Subscript)]
    alone = len(names) == 1 and not isinstance(function.defaults.get(first), int | float | str)
    return alone or any(isinstance(each, ast.Name) and each.id == first for each in holders)


def _check_fields(interpreter: Interpreter, cls: SourceClass, settings: Instance, name: str) -> None:
    """Where the source gives no defaults and a field was missing: names all fields that the file reads.

    Raises:
        KunportError: so it is.
    """
    reasons = [str(node.args[0]) for node in interpreter.trace.nodes if node.op == "unknown"]
    if settings.cls is not configuration or not any(f"{configuration.name} has no" in reason for reason in reasons):
        return
    file = cls.scope.namespace.file
    missing = [f"{name}.{field}" for field in fields_read([file.check()], name) if field not in settings.attributes]
    raise KunportError(
        f"{cls.name} in {file.name} reads {', '.join(missing)}, and nothing gives {'them' if missing[1:] else 'it'}.",
        _CURE,
    )


def run_arguments(interpreter: Interpreter, model: Instance, ids: Value) -> tuple[list[Value], dict[str, Value]]:
    """What the model's forward is called with: token ids, no past, no cache.

    An argument that it needs besides is 0 where it is the place of the first token, else None, which is noted.
    """
    method = interpreter.find(model, "forward")
    function = method.function if isinstance(method, Bound) else method
    if not isinstance(function, Function) or isinstance(function.node, ast.Lambda):
        return [ids], {}
    parameters = function.node.args
    names, by_position = named(parameters)[1:], positional(parameters)[1:]
    wild = parameters.kwarg is not None
    tokens = next((name for name in _TOKENS if name in names), None) or next(iter(by_position), None)
    if tokens is None:
        return ([], {"input_ids": ids}) if wild else ([ids], {})
    given = {tokens: ids}
    if "use_cache" in names or wild:
        given["use_cache"] = False
    for name in names:
        if name not in function.defaults and name not in given:
            given[name] = 0 if name in _PLACES else None
            interpreter.trace.note(f"{interpreter.trace.where}: forward's argument {name} is taken as {given[name]}")
    return [], given

"""torch.nn's base class of modules, parameters and buffers."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from kunport.analysis.interpreter import attributes
from kunport.analysis.interpreter.calls import call_module
from kunport.analysis.interpreter.signals import NotUnderstoodError
from kunport.analysis.intrinsics.registry import member, native, native_class
from kunport.analysis.saved_buffers import is_table
from kunport.analysis.values import Bound, Function, Instance, State, Tensor, Value, is_subclass

if TYPE_CHECKING:
    from kunport.analysis.interpreter import Interpreter

module = native_class("torch.nn.Module")
module.members["training"] = False


@member(module, "__init__", raw=True)
def _init(interpreter: Interpreter, this: Instance, *args: Value, **kwargs: Value) -> None:
    """Arguments are those of mixins further along. A module that is made while the model runs is one in training."""
    if not interpreter.constructing:
        this.attributes["training"] = True


@member(module, "register_parameter", "register_module", "add_module", raw=True)
def _register(interpreter: Interpreter, this: Instance, name: Value, value: Value) -> None:
    this.attributes[interpreter.pin(name)] = value


@member(module, "register_buffer")
def _register_buffer(
    interpreter: Interpreter, this: Instance, name: Value, tensor: Value, persistent: Value = True
) -> None:
    this.attributes[name] = _buffer(interpreter, tensor, persistent)


def _buffer(interpreter: Interpreter, tensor: Value, persistent: Value = True) -> Value:
    """A saved buffer is a tensor of the checkpoint, unless it is a table; another one stays what was computed."""
    if not isinstance(tensor, Tensor):
        return tensor
    if not persistent:
        return Tensor(tensor.id, tensor.type)
    if is_table(interpreter.trace, tensor.id):
        return Tensor(tensor.id, tensor.type, State(buffer=True, initial=tensor.id))
    return interpreter.state(tensor.type, buffer=True)


@native("torch.nn.Buffer", "torch.nn.parameter.Buffer")
def _make_buffer(interpreter: Interpreter, data: Value, persistent: Value = True) -> Value:
    return _buffer(interpreter, data, persistent)


@native("torch.nn.Parameter", "torch.nn.parameter.Parameter")
def _make_parameter(interpreter: Interpreter, data: Value, requires_grad: Value = True) -> Value:
    return interpreter.state(data.type) if isinstance(data, Tensor) else data


@member(module, "__call__", "_call_impl", raw=True)
def _call(interpreter: Interpreter, this: Instance, *args: Value, **kwargs: Value) -> Value:
    return call_module(interpreter, this, list(args), kwargs)


def _children(this: Instance) -> list[Instance]:
    held = [*this.attributes.values(), *items(this)]
    return [each for each in held if isinstance(each, Instance) and is_subclass(each.cls, module.name)]


def items(this: Instance) -> list[Value]:
    return list(this.items.values() if isinstance(this.items, dict) else this.items or ())


@member(module, "children")
def _list_children(interpreter: Interpreter, this: Instance) -> Value:
    return _children(this)


@member(module, "modules")
def _modules(interpreter: Interpreter, this: Instance) -> Value:
    return [this, *(inner for child in _children(this) for inner in _modules(interpreter, child))]


@member(module, "parameters")
def _parameters(interpreter: Interpreter, this: Instance, *args: Value, **options: Value) -> Value:
    owned = [each for owner in _modules(interpreter, this) for each in owner.attributes.values()]
    return [each for each in owned if isinstance(each, Tensor) and each.state is not None and not each.state.buffer]


def _named(this: Instance) -> list[tuple[str, Value]]:
    held = this.items.items() if isinstance(this.items, dict) else enumerate(this.items or ())
    return [*this.attributes.items(), *((str(key), each) for key, each in held)]


def _named_modules(this: Instance, prefix: str = "") -> list[tuple[str, Instance]]:
    found = [(prefix, this)]
    for name, each in _named(this):
        if isinstance(each, Instance) and is_subclass(each.cls, module.name):
            found += _named_modules(each, f"{prefix}.{name}" if prefix else name)
    return found


def _named_tensors(this: Instance, buffers: bool) -> list[tuple[str, Value]]:
    return [
        (f"{path}.{name}" if path else name, each)
        for path, owner in _named_modules(this)
        for name, each in _named(owner)
        if isinstance(each, Tensor) and each.state is not None and each.state.buffer == buffers
    ]


@member(module, "named_modules")
def _list_named_modules(interpreter: Interpreter, this: Instance, *args: Value, **options: Value) -> Value:
    return _named_modules(this)


@member(module, "named_children")
def _list_named_children(interpreter: Interpreter, this: Instance) -> Value:
    return [(name, each) for name, each in _named_modules(this)[1:] if "." not in name]


@member(module, "named_parameters")
def _list_named_parameters(interpreter: Interpreter, this: Instance, *args: Value, **options: Value) -> Value:
    return _named_tensors(this, buffers=False)


@member(module, "buffers")
def _list_buffers(interpreter: Interpreter, this: Instance, *args: Value, **options: Value) -> Value:
    return [each for _, each in _named_tensors(this, buffers=True)]


@member(module, "named_buffers")
def _list_named_buffers(interpreter: Interpreter, this: Instance, *args: Value, **options: Value) -> Value:
    return _named_tensors(this, buffers=True)


@member(module, "get_submodule")
def _get_submodule(interpreter: Interpreter, this: Instance, target: Value) -> Value:
    return dict(_named_modules(this))[target]


@member(module, "apply", raw=True)
def _apply(interpreter: Interpreter, this: Instance, function: Value) -> Value:
    """Functions that only fill weights change nothing that is read here: a checkpoint fills them again."""
    code = function.function if isinstance(function, Bound) else function
    if isinstance(code, Function) and _sets_attributes(code.node):
        for each in reversed(_modules(interpreter, this)):
            interpreter.call(function, [each], {})
    return this


def _sets_attributes(node: ast.AST) -> bool:
    """Whether a function sets attributes of an object that it is given or has found, other than a tensor's data."""
    for each in ast.walk(node):
        match each:
            case ast.Attribute(value=ast.Name(), attr=name, ctx=ast.Store()) if name != "data" and name[0] != "_":
                return True
            case ast.Call(func=ast.Name(id="setattr")):
                return True
    return False


@member(module, "train", raw=True)
def _train(interpreter: Interpreter, this: Instance, mode: Value = True) -> Value:
    """In a constructor it comes before ``eval``, which is called when the model is loaded."""
    if not interpreter.constructing:
        for each in _modules(interpreter, this):
            attributes.put(interpreter, each, "training", mode)
    return this


@member(module, "eval", raw=True)
def _eval(interpreter: Interpreter, this: Instance) -> Value:
    return _train(interpreter, this, False)


@member(module, "to", "requires_grad_", "float", "half", "cuda", "cpu", "compile", raw=True)
def _itself(interpreter: Interpreter, this: Instance, *args: Value, **options: Value) -> Value:
    return this


@member(module, "register_forward_hook", "register_forward_pre_hook", raw=True)
def _hooked(interpreter: Interpreter, this: Instance, *args: Value, **options: Value) -> None:
    raise NotUnderstoodError("a hook, which may change what its module takes and gives")


@member(module, "extra_repr", raw=True)
@member(module, "_register_load_state_dict_pre_hook", "register_load_state_dict_pre_hook", raw=True)
def _nothing(interpreter: Interpreter, this: Instance, *args: Value, **options: Value) -> None:
    return None

"""Methods of tensors that are more than the operator of their name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kunport_codegen.expression import unwrap
from kunport_codegen.graph import DType

from kunport.analysis.interpreter.containers import product
from kunport.analysis.interpreter.signals import NotUnderstoodError
from kunport.analysis.interpreter.tensors import RANDOM
from kunport.analysis.intrinsics.registry import NAMES, tensor_member
from kunport.analysis.values import Native, Tensor, Unknown, Value

if TYPE_CHECKING:
    from kunport.analysis.interpreter import Interpreter


@tensor_member("size")
def _size(interpreter: Interpreter, x: Tensor, dim: Value = None) -> Value:
    return x.type.shape if dim is None else x.type.shape[unwrap(dim)]


@tensor_member("dim", "ndimension")
def _dim(interpreter: Interpreter, x: Tensor) -> Value:
    return len(x.type.shape)


@tensor_member("numel", "nelement")
def _numel(interpreter: Interpreter, x: Tensor) -> Value:
    return product(x.type.shape)


@tensor_member("__len__")
def _len(interpreter: Interpreter, x: Tensor) -> Value:
    return x.type.shape[0]


@tensor_member("is_floating_point")
def _is_floating_point(interpreter: Interpreter, x: Tensor) -> Value:
    return interpreter.attribute(x.type.dtype, "is_floating_point")


@tensor_member("element_size")
def _element_size(interpreter: Interpreter, x: Tensor) -> Value:
    return interpreter.attribute(x.type.dtype, "itemsize")


@tensor_member("is_contiguous")
def _is_contiguous(interpreter: Interpreter, x: Tensor, **options: Value) -> Value:
    return True


@tensor_member("get_device")
def _get_device(interpreter: Interpreter, x: Tensor) -> Value:
    return -1


@tensor_member("register_hook", "retain_grad", "backward", "mark_unbacked", "share_memory_")
def _nothing(interpreter: Interpreter, x: Tensor, *args: Value) -> Value:
    return None


@tensor_member("requires_grad_")
def _unchanged(interpreter: Interpreter, x: Tensor, *args: Value, **options: Value) -> Value:
    return x


@tensor_member("normal_", "uniform_", "exponential_", "random_", "log_normal_", "bernoulli_", "cauchy_", "geometric_")
def _random(interpreter: Interpreter, x: Tensor, *args: Value, **options: Value) -> Value:
    """Initial values that the checkpoint replaces, unless the model already runs."""
    return interpreter.write(x, interpreter.unknown(RANDOM, x)) if not interpreter.constructing else x


@tensor_member("to")
def _to(interpreter: Interpreter, x: Tensor, *args: Value, **options: Value) -> Value:
    """Every form of ``to``; a device means nothing here."""
    for given in (*args, *options.values()):
        if isinstance(given, DType):
            return _cast(interpreter, x, given)
        if isinstance(given, Tensor):
            return _cast(interpreter, x, given.type.dtype)
        if isinstance(given, Unknown):
            return interpreter.operator("to", (x, given), {})
    return x


def _cast(interpreter: Interpreter, x: Tensor, dtype: DType) -> Value:
    if isinstance(x, Tensor) and x.type.dtype == dtype:
        return x
    return interpreter.operator("to", (x, dtype), {})


@tensor_member("type")
def _type(interpreter: Interpreter, x: Tensor, dtype: Value = None) -> Value:
    if isinstance(dtype, DType):
        return _cast(interpreter, x, dtype)
    raise NotUnderstoodError("a dtype by its old name")


@tensor_member("type_as")
def _type_as(interpreter: Interpreter, x: Tensor, other: Value) -> Value:
    return _to(interpreter, x, other)


_CASTS = {"float": "float32", "half": "float16", "bfloat16": "bfloat16", "double": "float64", "long": "int64"}
_CASTS |= {"int": "int32", "bool": "bool", "short": "int16"}
for _name, _target in _CASTS.items():

    def _named_cast(interpreter: Interpreter, x: Tensor, _target: str = _target, **options: Value) -> Value:
        return _cast(interpreter, x, DType(_target))

    tensor_member(_name)(_named_cast)


def _sizes(args: tuple[Value, ...], options: dict[str, Value], *names: str) -> tuple[Value, ...]:
    for name in names:
        if name in options:
            return tuple(options[name])
    return tuple(args[0]) if len(args) == 1 and isinstance(args[0], tuple | list) else args


@tensor_member("view", "reshape")
def _reshape(interpreter: Interpreter, x: Tensor, *args: Value, **options: Value) -> Value:
    if args and isinstance(args[0], DType):
        raise NotUnderstoodError("a view under another dtype")
    return interpreter.operator("reshape", (x, _sizes(args, options, "shape", "size")), {})


NAMES["torch.reshape"] = Native("torch.reshape", _reshape)


@tensor_member("view_as", "reshape_as")
def _reshape_as(interpreter: Interpreter, x: Tensor, other: Tensor) -> Value:
    return interpreter.operator("reshape", (x, other.type.shape), {})


@tensor_member("expand")
def _expand(interpreter: Interpreter, x: Tensor, *args: Value, **options: Value) -> Value:
    return interpreter.operator("expand", (x, _sizes(args, options, "size")), {})


@tensor_member("expand_as")
def _expand_as(interpreter: Interpreter, x: Tensor, other: Tensor) -> Value:
    return interpreter.operator("expand", (x, other.type.shape), {})


@tensor_member("permute")
def _permute(interpreter: Interpreter, x: Tensor, *args: Value, **options: Value) -> Value:
    return interpreter.operator("permute", (x, _sizes(args, options, "dims")), {})


NAMES["torch.permute"] = Native("torch.permute", _permute)


@tensor_member("repeat")
def _repeat(interpreter: Interpreter, x: Tensor, *args: Value, **options: Value) -> Value:
    return interpreter.operator("repeat", (x, _sizes(args, options, "repeats")), {})


@tensor_member("flip")
def _flip(interpreter: Interpreter, x: Tensor, *args: Value, **options: Value) -> Value:
    return interpreter.operator("flip", (x, _sizes(args, options, "dims")), {})


@tensor_member("unflatten")
def _unflatten(interpreter: Interpreter, x: Tensor, dim: Value, sizes: Value) -> Value:
    return interpreter.operator("unflatten", (x, dim, tuple(sizes)), {})


NAMES["torch.unflatten"] = Native("torch.unflatten", _unflatten)


def _new(name: str) -> None:
    @tensor_member(f"new_{name}")
    def make(interpreter: Interpreter, x: Tensor, *args: Value, **options: Value) -> Value:
        dtype = options.get("dtype") or x.type.dtype
        if name == "full":
            return interpreter.operator("full", (_sizes(args[:1], options, "size"), args[1]), {"dtype": dtype})
        return interpreter.operator(name, (_sizes(args, options, "size"),), {"dtype": dtype})


for _name in ("zeros", "ones", "empty", "full"):
    _new(_name)


@tensor_member("new_tensor")
def _new_tensor(interpreter: Interpreter, x: Tensor, data: Value, dtype: Value = None, **options: Value) -> Value:
    return interpreter.operator("tensor", (data,), {"dtype": dtype or x.type.dtype})


@tensor_member("copy_")
def _copy_(interpreter: Interpreter, x: Tensor, source: Value, *rest: Value, **options: Value) -> Value:
    return interpreter.write(x, source)


@tensor_member("fill_")
def _fill_(interpreter: Interpreter, x: Tensor, value: Value) -> Value:
    return interpreter.write(x, value)


@tensor_member("zero_")
def _zero_(interpreter: Interpreter, x: Tensor) -> Value:
    return interpreter.write(x, 0)


@tensor_member("where")
def _where(interpreter: Interpreter, x: Tensor, condition: Value, other: Value) -> Value:
    """The method has the condition second, the function first."""
    return interpreter.operator("where", (condition, x, other), {})


@tensor_member("item")
def _item(interpreter: Interpreter, x: Tensor) -> Value:
    """A number that only the data tell; it still works as an index or an operand."""
    if x.type.shape:
        return interpreter.operator("reshape", (x, ()), {})
    return x


@tensor_member("tolist")
def _tolist(interpreter: Interpreter, x: Tensor) -> Value:
    """Numbers that only the data tell, see `_item`."""
    if len(x.type.shape) != 1 or interpreter.depends_on_data(x):
        raise NotUnderstoodError("a tensor's values as plain numbers")
    return interpreter.rows(x)


@tensor_member("numpy")
def _numpy(interpreter: Interpreter, x: Tensor) -> Value:
    raise NotUnderstoodError("a tensor's values as plain numbers")


@tensor_member("stride")
def _stride(interpreter: Interpreter, x: Tensor, *dim: Value) -> Value:
    raise NotUnderstoodError("a tensor's memory layout")

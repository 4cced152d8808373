"""Tensors: operators become nodes, and writes in place become new values of their cells."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from kunport_codegen.expression import Scalar, fields_of, symbols_of, unwrap
from kunport_codegen.graph import DType, Ref

from kunport.analysis.interpreter import formulas, limits, views
from kunport.analysis.interpreter.operations import describe, scalar_operator
from kunport.analysis.interpreter.signals import NotUnderstoodError, RaisedError
from kunport.analysis.intrinsics.registry import DEVICE, TENSOR_MEMBERS
from kunport.analysis.intrinsics.signatures import normalize
from kunport.analysis.saved_buffers import unsettle
from kunport.analysis.shapes import RULES, ShapeError, TensorType, canonical, infer
from kunport.analysis.values import (
    Bound,
    FieldList,
    Instance,
    Native,
    NativeClass,
    OrderedSet,
    Results,
    SourceClass,
    Tensor,
    Unknown,
    Value,
)

if TYPE_CHECKING:
    from kunport.analysis.interpreter import Interpreter

RANDOM = "random numbers while the model runs"
_RANDOM = {"rand", "randn", "rand_like", "randn_like"}
# Operators that leave the values as they are: the graph has no memory layout, no gradients and no dropout.
_IDENTITIES = {"contiguous", "detach", "alias", "cpu", "cuda", "dropout", "alpha_dropout", "clone", "requires_grad"}
_IDENTITIES |= {"pin_memory", "resolve_conj"}
_PYTHON_DTYPES = {"builtins.bool": "bool", "builtins.int": "int64", "builtins.float": "float64"}
_FLOAT_NAMES = {"float16", "bfloat16", "model", "float32", "float64", "float8_e4m3fn", "float8_e5m2"}


def operator(interpreter: Interpreter, name: str, args: tuple[Value, ...], kwargs: dict[str, Value]) -> Value:
    """Emits the operator of this name; gives its result, or the results of an operator with several.

    A name with a trailing underscore writes its result into the first operand's cell. What has no
    shape rule becomes an unknown node.
    """
    op = canonical(name)
    if interpreter.names.replaced and (reason := interpreter.names.is_replaced(op)):
        return unknown(interpreter, reason, *args, *kwargs.values())
    if op in _RANDOM and not interpreter.constructing:
        return unknown(interpreter, RANDOM, *args)
    last = name.rpartition(".")[2]
    in_place = last.endswith("_") and not last.endswith("__")
    if op in _IDENTITIES and args and isinstance(args[0], Tensor | Unknown):
        if op == "contiguous":
            interpreter.trace.lay_out(args[0].id)
        return args[0] if in_place or op == "detach" else _copy(args[0])
    if op == "einsum" and not kwargs and (product := formulas.as_matmul(interpreter, args)) is not None:
        return product
    out = kwargs.get("out")
    in_place = in_place or unwrap(kwargs.get("inplace", False)) is True
    args, kwargs = normalize(op, tuple(map(_dtype, args)), {key: _dtype(each) for key, each in kwargs.items()})
    if op in ("add", "sub") and "alpha" in kwargs:  # as what torch says it is: readers need not know it
        args = (args[0], _scaled(interpreter, args[1], kwargs["alpha"]))
        kwargs = {key: each for key, each in kwargs.items() if key != "alpha"}
    try:
        result = _emit(interpreter, op, args, kwargs)
    except ShapeError as error:
        return unknown(interpreter, error.reason, *args, *kwargs.values())
    if in_place:
        return write(interpreter, args[0], result)
    if isinstance(out, Tensor):
        return write(interpreter, out, result)
    if op in views.VIEWS or op in views.SHARING:
        for each in result if isinstance(result, Results) else (result,):
            if isinstance(each, Tensor) and isinstance(args[0], Tensor):
                views.attach(each, op, args)
    return result


def _scaled(interpreter: Interpreter, value: Value, factor: Value) -> Value:
    if isinstance(value, Tensor | Unknown):
        return operator(interpreter, "mul", (value, factor), {})
    return scalar_operator(interpreter, "mul", value, factor)


def _dtype(value: Value) -> Value:
    """Python's own number types also name dtypes."""
    name = _PYTHON_DTYPES.get(value.name) if isinstance(value, NativeClass) else None
    return value if name is None else DType(name)


def _copy(value: Value) -> Value:
    return Tensor(value.id, value.type) if isinstance(value, Tensor) else value


def _emit(interpreter: Interpreter, op: str, args: tuple[Value, ...], kwargs: dict[str, Value]) -> Value:
    interpreter.spend(limits.NODE)
    for operand in (*args, *kwargs.values()):
        refresh(interpreter, operand)
    node_args = tuple(argument(interpreter, each) for each in args)
    node_kwargs = {key: argument(interpreter, each) for key, each in kwargs.items()}
    trace = interpreter.trace
    if any(map(_is_unknown, (*args, *kwargs.values()))):
        node = trace.emit(op, node_args, node_kwargs)
        return Unknown(node.id, "computed from an unknown value")
    types = tuple(_typed(each) for each in args)
    result = infer(op, types, {key: _typed(each) for key, each in kwargs.items()}, symbol=f"data_{trace.new_id()}")
    if isinstance(result, TensorType):
        default = interpreter.default_dtype
        if result.dtype.name == "float32" != default.name and not _says_dtype((*types, *map(_typed, kwargs.values()))):
            result = TensorType(result.shape, default)
        return Tensor(trace.emit(op, node_args, node_kwargs, result).id, result)
    node = trace.emit(op, node_args, node_kwargs)
    return Results(
        Tensor(trace.emit("item", (Ref(node.id), position), kind=each).id, each) for position, each in enumerate(result)
    )


def _says_dtype(operands: Iterable[Any]) -> bool:
    """Whether an operand is floating already or names a dtype; whole numbers become floating in the default one."""
    for each in operands:
        if isinstance(each, list | tuple):
            if _says_dtype(each):
                return True
        elif isinstance(each, DType) or (isinstance(each, TensorType) and each.dtype.name in _FLOAT_NAMES):
            return True
    return False


def _is_unknown(value: Value) -> bool:
    if isinstance(value, list | tuple):
        return any(map(_is_unknown, value))
    if isinstance(value, slice):
        return any(map(_is_unknown, (value.start, value.stop, value.step)))
    return isinstance(value, Unknown)


def _typed(value: Value) -> Any:
    """A value as shape rules see it."""
    if isinstance(value, Tensor):
        return value.type
    if isinstance(value, list | tuple):
        return (
            type(value)(_typed(each) for each in value) if not isinstance(value, FieldList) else [*map(_typed, value)]
        )
    if isinstance(value, slice):
        return slice(_typed(value.start), _typed(value.stop), _typed(value.step))
    return value


def argument(interpreter: Interpreter, value: Value) -> Any:
    """A value as a node's argument.

    Raises:
        NotUnderstoodError: no node can hold it.
    """
    if isinstance(value, Tensor | Unknown):
        return Ref(value.id)
    if isinstance(value, Scalar):
        picked = value.expr.chosen and isinstance(value.value, int | float) and not isinstance(value.value, bool)
        return value if picked or fields_of(value.expr) or symbols_of(value.expr) else value.value
    if isinstance(value, bool | int | float | str | None | DType) or value is ...:
        return value
    if isinstance(value, OrderedSet):
        return [argument(interpreter, each) for each in value]
    if isinstance(value, list):
        return [argument(interpreter, each) for each in value]
    if isinstance(value, tuple):
        return tuple(argument(interpreter, each) for each in value)
    if isinstance(value, range):
        return list(value)
    if isinstance(value, dict):
        return {str(key): argument(interpreter, each) for key, each in value.items()}
    if isinstance(value, slice):
        return slice(*(argument(interpreter, each) for each in (value.start, value.stop, value.step)))
    if isinstance(value, Instance) and any(isinstance(cls, SourceClass) and cls.record for cls in value.cls.mro):
        return {key: argument(interpreter, each) for key, each in value.attributes.items() if each is not None}
    raise NotUnderstoodError(f"an operand that is neither a tensor nor a plain value ({describe(value)})")


def argument_or_none(interpreter: Interpreter, value: Value) -> Any:
    try:
        return argument(interpreter, value)
    except NotUnderstoodError:
        return None


def arguments(interpreter: Interpreter, values: dict[str, Value]) -> dict[str, Any]:
    found = {}
    for name, value in values.items():
        try:
            found[name] = argument(interpreter, value)
        except NotUnderstoodError:
            continue
    return found


def unknown(interpreter: Interpreter, reason: str, *operands: Value) -> Unknown:
    """An unknown node with those of the operands that a node can hold."""
    held = [each for each in (argument_or_none(interpreter, operand) for operand in operands) if each is not None]
    node = interpreter.trace.emit("unknown", (reason, *held))
    return Unknown(node.id, reason)


def unpacked(interpreter: Interpreter, value: Unknown, count: int) -> list[Value]:
    """The parts that an unknown value is unpacked into."""
    nodes = [interpreter.trace.emit("item", (Ref(value.id), position)) for position in range(count)]
    return [Unknown(node.id, value.reason) for node in nodes]


def refresh(interpreter: Interpreter, value: Value) -> None:
    """Makes views of a tensor that was written to since show what it holds now."""
    if isinstance(value, Tensor):
        views.refresh(interpreter, value)
    elif isinstance(value, list | tuple):
        for each in value:
            refresh(interpreter, each)


def write(interpreter: Interpreter, cell: Value, new: Value) -> Value:
    """Replaces what a cell holds, as an operator in place does: its dtype and shape stay."""
    if not isinstance(cell, Tensor):
        return new
    if isinstance(new, Tensor):
        if new.type.dtype != cell.type.dtype:
            new = operator(interpreter, "to", (new, cell.type.dtype), {})
        if [unwrap(size) for size in new.type.shape] != [unwrap(size) for size in cell.type.shape]:
            new = operator(interpreter, "expand", (new, cell.type.shape), {})
    elif not isinstance(new, Unknown):
        new = operator(interpreter, "full_like", (cell, new), {})
    _replace(interpreter, cell, new.id)
    return cell


def write_item(interpreter: Interpreter, cell: Value, key: Value, new: Value) -> None:
    """``cell[key] = new``."""
    result = operator(interpreter, "setitem", (cell, key, new), {})
    if isinstance(cell, Tensor):
        _replace(interpreter, cell, result.id)


def _replace(interpreter: Interpreter, cell: Tensor, new: int) -> None:
    if cell.state is not None and interpreter.constructing:
        if cell.state.initial is not None:
            cell.id = cell.state.initial = new
        return  # the constructor sets initial values, which the checkpoint replaces
    if cell.state is not None and cell.state.initial is not None:
        unsettle(interpreter, cell)
    for turn in interpreter.turns:
        if cell.id < turn.row or cell in turn.written:
            turn.written.setdefault(cell, cell.id)
    interpreter.replay.overwritten(cell)
    cell.id = new
    cell.version += 1
    views.write_back(interpreter, cell)


def rows(interpreter: Interpreter, value: Value) -> list[Value]:
    """The rows that a loop over a tensor meets.

    Raises:
        NotUnderstoodError: only the data tell how many there are.
    """
    if isinstance(value, Unknown):
        raise NotUnderstoodError(f"a loop over an unknown value ({value.reason})")
    if not value.type.shape:
        raise RaisedError("TypeError", "iteration over a tensor without dimensions")
    count = value.type.shape[0]
    if depends_on_data(value):
        raise NotUnderstoodError("a loop over a tensor whose length only the data tell")
    if isinstance(count, Scalar) and symbols_of(count.expr):
        interpreter.trace.note(f"{interpreter.trace.where}: a loop over {count.expr} was unrolled {count.value} times")
    interpreter.spend(limits.CALL * unwrap(count))
    return [interpreter.operator("getitem", (value, position), {}) for position in range(unwrap(count))]


def depends_on_data(value: Tensor) -> bool:
    """Whether only the data tell how many rows the tensor has."""
    size = value.type.shape[0] if value.type.shape else 0
    return isinstance(size, Scalar) and bool(symbols_of(size.expr) - {"batch", "sequence", "past"})


def attribute(interpreter: Interpreter, value: Value, name: str) -> Value:
    """``tensor.name``: its type, an operator written as an attribute, or a method.

    Of an unknown value all but methods is the value itself.
    """
    if name in ("is_cuda", "requires_grad", "is_nested", "is_meta", "is_quantized", "is_sparse", "grad"):
        return False
    if name == "data":
        return value
    if name == "device":
        return DEVICE
    if isinstance(value, Unknown):
        return Bound(value, _method(name)) if canonical(name) in RULES else value
    if name == "shape":
        return value.type.shape
    if name == "dtype":
        return value.type.dtype
    if name == "ndim":
        return len(value.type.shape)
    if name == "mT":
        return interpreter.operator("transpose", (value, -2, -1), {})
    if name in ("T", "real", "imag"):
        return interpreter.operator(name, (value,), {})
    if (name.isupper() and name not in RULES) or (name.startswith("_") and not name.endswith("_")):
        raise RaisedError("AttributeError", f"a tensor has no attribute {name}")
    return Bound(value, TENSOR_MEMBERS.get(name) or _method(name))


def _method(name: str) -> Native:
    return Native(f"torch.Tensor.{name}", lambda interpreter, *args, **kwargs: interpreter.operator(name, args, kwargs))


def set_attribute(interpreter: Interpreter, value: Value, name: str, new: Value) -> None:
    if name == "data":
        write(interpreter, value, new)
    # Any other is a mark that means nothing to the graph (``requires_grad``, ``_no_weight_decay``).


def dtype_attribute(value: DType, name: str) -> Value:
    if name == "is_floating_point":
        return value.name in _FLOAT_NAMES
    if name == "itemsize":
        digits = "".join(character for character in value.name if character.isdigit())
        return int(digits) // 8 if digits else 4
    raise RaisedError("AttributeError", f"a dtype has no attribute {name}")

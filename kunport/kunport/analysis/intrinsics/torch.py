"""Functions of torch that are more, or less, than the operator of their name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kunport_codegen.expression import unwrap
from kunport_codegen.graph import DType

from kunport.analysis.interpreter.operations import is_tensor
from kunport.analysis.interpreter.signals import NotUnderstoodError
from kunport.analysis.intrinsics.registry import NAMES, member, native, native_class, tensor_member
from kunport.analysis.values import Device, Function, Instance, Native, NativeClass, SourceClass, Tensor, Value

if TYPE_CHECKING:
    from kunport.analysis.interpreter import Interpreter

tensor_class = native_class("torch.Tensor")
for _name in ("LongTensor", "FloatTensor", "BoolTensor", "IntTensor", "HalfTensor"):
    NAMES[f"torch.{_name}"] = tensor_class
for _name in ("contiguous_format", "channels_last", "preserve_format", "strided"):
    NAMES[f"torch.{_name}"] = None
NAMES["torch.__version__"] = "2.13.0"
NAMES["torch.backends.cuda.matmul.allow_tf32"] = False

# Questions about how the model is being run: plainly, in eager mode, on one device.
_FALSE = (
    *("torch.compiler.is_compiling", "torch.compiler.is_exporting", "torch.compiler.is_dynamo_compiling"),
    *("torch._dynamo.is_compiling", "torch.jit.is_tracing", "torch.jit.is_scripting", "torch.onnx.is_in_onnx_export"),
    *("torch.is_autocast_enabled", "torch.is_autocast_cpu_enabled", "torch.is_grad_enabled", "torch.cuda.is_available"),
    *("torch.distributed.is_available", "torch.distributed.is_initialized", "torch.is_inference_mode_enabled"),
    *("torch.fx._symbolic_trace.is_fx_tracing", "torch.fx.is_fx_tracing", "torch.backends.mps.is_available"),
)
for _name in _FALSE:
    NAMES[_name] = Native(_name, lambda interpreter, *args, **kwargs: False)

# Calls whose effect the graph does not have: initial weights, precision modes, checks, context managers.
_NOTHING = (
    *("torch._check", "torch._check_is_size", "torch._assert", "torch.manual_seed", "torch.set_grad_enabled"),
    *("torch.autograd.set_grad_enabled", "torch.device_context", "torch.cuda.device"),
    *("torch._dynamo.mark_static_address", "torch._dynamo.graph_break", "torch.cuda.synchronize"),
    *("torch.set_float32_matmul_precision", "torch.autograd.profiler.record_function", "torch.cuda.nvtx.range"),
    *("torch.backends.cuda.sdp_kernel", "torch.nn.attention.sdpa_kernel", "torch.profiler.record_function"),
    *("torch.cuda.empty_cache", "torch.cuda.set_device", "torch.cuda.stream", "torch.utils.swap_tensors"),
)
for _name in _NOTHING:
    NAMES[_name] = Native(_name, lambda interpreter, *args, **kwargs: None, raw=True)


def _initializer(name: str) -> Native:
    """Nothing in a constructor: a checkpoint replaces what it sets. While the model runs, it changes what is read."""

    def initialize(interpreter: Interpreter, value: Value, *args: Value, **options: Value) -> Value:
        if not interpreter.constructing and isinstance(value, Tensor):
            return interpreter.write(value, interpreter.unknown(f"{name} of a tensor while the model runs", value))
        return value

    return Native(name, initialize, raw=True)


_INITIALIZERS = (
    *("normal_", "uniform_", "zeros_", "ones_", "constant_", "xavier_uniform_", "xavier_normal_", "kaiming_uniform_"),
    *("kaiming_normal_", "trunc_normal_", "copy_", "eye_", "orthogonal_"),
)
for _module in ("torch.nn.init", "transformers.initialization"):
    for _name in _INITIALIZERS:
        NAMES[f"{_module}.{_name}"] = _initializer(_name)


@native("torch.autocast", "torch.amp.autocast", "torch.amp.autocast_mode.autocast", "torch.cuda.amp.autocast")
def _autocast(interpreter: Interpreter, *args: Value, enabled: Value = True, **options: Value) -> None:
    """Nothing where it is switched off, as around what has to stay in float32."""
    if interpreter.truth(enabled) and False not in args:
        raise NotUnderstoodError("autocast, which computes products in another type")


def _made(name: str, *others: str) -> None:
    """Creation of a tensor from a size: its dtype is the default one, which depends on the phase."""

    @native(*(f"torch.{each}" for each in (name, *others)))
    def make(interpreter: Interpreter, *size: Value, **options: Value) -> Value:
        shape = options.pop("size", None) or (size[0] if len(size) == 1 and isinstance(size[0], tuple | list) else size)
        dtype = options.get("dtype") or interpreter.default_dtype
        return interpreter.operator(name, (tuple(shape),), {"dtype": dtype})


_made("zeros")
_made("ones")
_made("empty")
_made("rand", "randn")  # random initial values, which the checkpoint replaces


@native("torch.normal")
def _normal(interpreter: Interpreter, mean: Value, std: Value, size: Value = None, **options: Value) -> Value:
    """Random initial values, which the checkpoint replaces."""
    return interpreter.operator("empty", (tuple(size),), {"dtype": options.get("dtype") or interpreter.default_dtype})


def _extremes(name: str, pairwise: str) -> None:
    """``max`` and ``min`` are also the elementwise operators of two tensors, under one name."""

    def choose(interpreter: Interpreter, x: Value, *args: Value, **options: Value) -> Value:
        other = args[0] if args else options.get("other")
        if is_tensor(other):
            return interpreter.operator(pairwise, (x, other), {})
        return interpreter.operator(name, (x, *args), options)

    native(f"torch.{name}")(choose)
    tensor_member(name)(choose)


_extremes("max", "maximum")
_extremes("min", "minimum")


@native("torch.full")
def _full(interpreter: Interpreter, size: Value, fill_value: Value, dtype: Value = None, **options: Value) -> Value:
    if dtype is None and isinstance(unwrap(fill_value), float):
        dtype = interpreter.default_dtype
    shape = tuple(size) if isinstance(size, tuple | list) else (size,)
    return interpreter.operator("full", (shape, fill_value), {"dtype": dtype} if dtype is not None else {})


@native("torch.arange")
def _arange(
    interpreter: Interpreter, *bounds: Value, start: Value = 0, end: Value = None, step: Value = 1, **options: Value
) -> Value:
    if len(bounds) == 1:
        end = bounds[0]
    elif bounds:
        start, end, step = (*bounds, step)[:3]
    dtype = options.get("dtype")
    if dtype is None and any(isinstance(unwrap(each), float) for each in (start, end, step)):
        dtype = interpreter.default_dtype
    return interpreter.operator("arange", (start, end, step), {"dtype": dtype} if dtype is not None else {})


@native("torch.linspace")
def _linspace(interpreter: Interpreter, start: Value, end: Value, steps: Value, **options: Value) -> Value:
    dtype = options.get("dtype") or interpreter.default_dtype
    return interpreter.operator("linspace", (start, end, steps), {"dtype": dtype})


@native("torch.eye")
def _eye(interpreter: Interpreter, n: Value, m: Value = None, **options: Value) -> Value:
    size = (n,) if m is None else (n, m)
    return interpreter.operator("eye", size, {"dtype": options.get("dtype") or interpreter.default_dtype})


@native("torch.tensor", "torch.as_tensor", "torch.scalar_tensor")
def _tensor(interpreter: Interpreter, data: Value, dtype: Value = None, **options: Value) -> Value:
    if is_tensor(data):
        return interpreter.operator("to", (data, dtype), {}) if dtype is not None else data
    if dtype is None and _has_float(data):
        dtype = interpreter.default_dtype
    return interpreter.operator("tensor", (data,), {"dtype": dtype} if dtype is not None else {})


def _has_float(data: Value) -> bool:
    if isinstance(data, list | tuple):
        return any(map(_has_float, data))
    return isinstance(unwrap(data), float)


@native("torch.is_tensor")
def _is_tensor(interpreter: Interpreter, value: Value) -> Value:
    return is_tensor(value)


@native("torch.is_floating_point")
def _is_floating_point(interpreter: Interpreter, value: Value) -> Value:
    return interpreter.attribute(interpreter.attribute(value, "dtype"), "is_floating_point")


@native("torch.device")
def _device(interpreter: Interpreter, kind: Value = "cpu", index: Value = None) -> Value:
    return kind if isinstance(kind, Device) else Device(str(kind).partition(":")[0], index)


@native("torch.get_default_dtype")
def _get_default_dtype(interpreter: Interpreter) -> Value:
    return interpreter.default_dtype


@native("torch.promote_types", "torch.result_type")
def _promote(interpreter: Interpreter, a: Value, b: Value) -> Value:
    from kunport.analysis.shapes.dtypes import promote

    return promote(a, b)


# Largest and smallest values; those of "model" are float32's, as validation runs it.
_LIMITS = {
    "float32": (-3.4028234663852886e38, 3.4028234663852886e38, 1.1920928955078125e-07, 1.1754943508222875e-38),
    "float16": (-65504.0, 65504.0, 0.0009765625, 6.103515625e-05),
    "bfloat16": (-3.3895313892515355e38, 3.3895313892515355e38, 0.0078125, 1.1754943508222875e-38),
    "float64": (-1.7976931348623157e308, 1.7976931348623157e308, 2.220446049250313e-16, 2.2250738585072014e-308),
}
_limits_class = NativeClass("torch.finfo")


@native("torch.finfo", "torch.iinfo")
def _finfo(interpreter: Interpreter, dtype: Value = DType("float32")) -> Value:  # noqa: B008
    name = "float32" if dtype.name == "model" else dtype.name
    if dtype.name == "model":
        interpreter.trace.note(f"{interpreter.trace.where}: the limits of the model's dtype were taken as float32's")
    if name in _LIMITS:
        low, high, eps, tiny = _LIMITS[name]
        return Instance(_limits_class, {"min": low, "max": high, "eps": eps, "tiny": tiny, "smallest_normal": tiny})
    bits = int("".join(character for character in name if character.isdigit()))
    return Instance(_limits_class, {"min": -(2 ** (bits - 1)), "max": 2 ** (bits - 1) - 1})


@native("torch.nn.functional.dropout", "torch.nn.functional.dropout1d", "torch.dropout")
def _dropout(interpreter: Interpreter, x: Value, p: Value = 0.5, training: Value = True, **options: Value) -> Value:
    """Nothing, unless the source forgets to say that the model is not training: torch's default is that it is."""
    if interpreter.truth(training) and interpreter.truth(p):
        return interpreter.unknown("dropout that stays on outside of training", x)
    return x


@native("torch.nn.functional.scaled_dot_product_attention")
def _attention(interpreter: Interpreter, *args: Value, **options: Value) -> Value:
    dropout = args[4] if len(args) > 4 else options.get("dropout_p", 0.0)
    if interpreter.truth(dropout):
        return interpreter.unknown("dropout that stays on outside of training", *args)
    return interpreter.operator("scaled_dot_product_attention", args, options)


@native("torch.nn.functional.embedding")
def _embedding(interpreter: Interpreter, *args: Value, **options: Value) -> Value:
    longest = args[3] if len(args) > 3 else options.get("max_norm")
    if longest is not None:
        return interpreter.unknown("an embedding that shortens its weights while it reads them", *args)
    return interpreter.operator("embedding", args, options)


@native("torch.Size")
def _size(interpreter: Interpreter, sizes: Value) -> Value:
    return tuple(interpreter.iterate(sizes))


@native("torch.nn.functional.multi_head_attention_forward")
def _refused(interpreter: Interpreter, *args: Value, **kwargs: Value) -> Value:
    raise NotUnderstoodError("multi_head_attention_forward")


@native("torch.utils.checkpoint.checkpoint", raw=True)
def _checkpoint(interpreter: Interpreter, function: Value, *args: Value, **kwargs: Value) -> Value:
    named = {key: each for key, each in kwargs.items() if key not in ("use_reentrant", "preserve_rng_state")}
    return interpreter.call(function, list(args), named)


# A function with its own gradient: only its forward counts.
autograd_function = native_class("torch.autograd.Function")
_context_class = NativeClass("torch.autograd.function.FunctionCtx")
for _name in ("save_for_backward", "mark_dirty", "mark_non_differentiable", "set_materialize_grads"):
    _context_class.members[_name] = Native(_name, lambda interpreter, *args: None, raw=True)


def _apply(interpreter: Interpreter, cls: SourceClass, *args: Value, **kwargs: Value) -> Value:
    forward = interpreter.attribute(cls, "forward")
    assert isinstance(forward, Function)
    return interpreter.call(forward, [Instance(_context_class), *args], kwargs)


autograd_function.members["apply"] = Native("torch.autograd.Function.apply", _apply, raw=True, classmethod=True)


@native("torch.func.vmap", "torch.vmap", raw=True)
def _vmap(interpreter: Interpreter, function: Value, *args: Value, **kwargs: Value) -> Value:
    raise NotUnderstoodError("vmap")


# A normal distribution, of which models take the quantile function.
normal = native_class("torch.distributions.normal.Normal")
NAMES["torch.distributions.Normal"] = normal


@member(normal, "__init__")
def _normal_init(interpreter: Interpreter, this: Instance, loc: Value, scale: Value, **options: Value) -> None:
    this.attributes.update(loc=loc, scale=scale)


@member(normal, "icdf")
def _normal_icdf(interpreter: Interpreter, this: Instance, value: Value) -> Value:
    """The quantile function: loc + scale * sqrt(2) * erfinv(2 * value - 1)."""
    operator = interpreter.operator
    centred = operator("sub", (operator("mul", (value, 2), {}), 1), {})
    spread = operator("mul", (operator("erfinv", (centred,), {}), 2**0.5), {})
    return operator("add", (operator("mul", (spread, this.attributes["scale"]), {}), this.attributes["loc"]), {})

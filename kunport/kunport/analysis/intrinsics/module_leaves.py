"""torch.nn's leaves: each is its functional operator on its own parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kunport_codegen.expression import unwrap
from kunport_codegen.graph import DType

from kunport.analysis.interpreter import attributes
from kunport.analysis.interpreter.operations import describe
from kunport.analysis.interpreter.signals import NotUnderstoodError, RaisedError
from kunport.analysis.intrinsics.modules import module
from kunport.analysis.intrinsics.registry import external, member, native, native_class
from kunport.analysis.shapes import TensorType
from kunport.analysis.shapes.sizes import quotient
from kunport.analysis.values import Instance, NativeClass, Value

if TYPE_CHECKING:
    from kunport.analysis.interpreter import Interpreter


def parameter(interpreter: Interpreter, *shape: Value, dtype: Value = None) -> Value:
    for size in map(unwrap, shape):
        if not isinstance(size, int):
            raise RaisedError("TypeError", f"the size of a parameter is {describe(size)}")
        if size < 0:
            raise RaisedError("RuntimeError", f"the size of a parameter is {size}")
    return interpreter.state(TensorType(tuple(shape), dtype or DType("model")))


linear = native_class("torch.nn.Linear", module)


@member(linear, "__init__", raw=True)
def _linear_init(
    interpreter: Interpreter,
    this: Instance,
    in_features: Value,
    out_features: Value,
    bias: Value = True,
    device: Value = None,
    dtype: Value = None,
) -> None:
    weight = parameter(interpreter, out_features, in_features, dtype=dtype)
    offset = parameter(interpreter, out_features, dtype=dtype) if interpreter.pin(bias) else None
    this.attributes.update(
        in_features=in_features, out_features=out_features, has_bias=bias, weight=weight, bias=offset
    )


@member(linear, "forward")
def _linear(interpreter: Interpreter, this: Instance, input: Value) -> Value:  # noqa: A002
    return interpreter.operator("linear", (input, this.attributes["weight"], this.attributes["bias"]), {})


embedding = native_class("torch.nn.Embedding", module)


@member(embedding, "__init__")
def _embedding_init(
    interpreter: Interpreter,
    this: Instance,
    num_embeddings: Value,
    embedding_dim: Value,
    padding_idx: Value = None,
    max_norm: Value = None,
    **options: Value,
) -> None:
    weight = parameter(interpreter, num_embeddings, embedding_dim, dtype=options.get("dtype"))
    this.attributes.update(num_embeddings=num_embeddings, embedding_dim=embedding_dim, padding_idx=padding_idx)
    this.attributes.update(max_norm=max_norm, weight=weight)


@member(embedding, "forward")
def _embedding(interpreter: Interpreter, this: Instance, input: Value) -> Value:  # noqa: A002
    look_up = external("torch.nn.functional.embedding")
    return interpreter.call(look_up, [input, this.attributes["weight"]], {"max_norm": this.attributes["max_norm"]})


def _normalization(name: str, op: str, default: float | None) -> None:
    cls = native_class(f"torch.nn.{name}", module)

    @member(cls, "__init__")
    def init(
        interpreter: Interpreter,
        this: Instance,
        normalized_shape: Value,
        eps: Value = default,
        elementwise_affine: Value = True,
        bias: Value = True,
        device: Value = None,
        dtype: Value = None,
    ) -> None:
        shape = tuple(normalized_shape) if isinstance(normalized_shape, tuple | list) else (normalized_shape,)
        weight = parameter(interpreter, *shape, dtype=dtype) if elementwise_affine else None
        this.attributes.update(normalized_shape=shape, eps=eps, weight=weight)
        if op == "layer_norm":
            this.attributes["bias"] = (
                parameter(interpreter, *shape, dtype=dtype) if elementwise_affine and bias else None
            )

    @member(cls, "forward")
    def forward(interpreter: Interpreter, this: Instance, input: Value) -> Value:  # noqa: A002
        held = this.attributes
        offset = (held["bias"],) if op == "layer_norm" else ()
        return interpreter.operator(op, (input, held["normalized_shape"], held["weight"], *offset, held["eps"]), {})


_normalization("LayerNorm", "layer_norm", 1e-5)
_normalization("RMSNorm", "rms_norm", None)

group_norm = native_class("torch.nn.GroupNorm", module)


@member(group_norm, "__init__")
def _group_norm_init(
    interpreter: Interpreter,
    this: Instance,
    num_groups: Value,
    num_channels: Value,
    eps: Value = 1e-5,
    affine: Value = True,
) -> None:
    weight, bias = (parameter(interpreter, num_channels) if affine else None for _ in range(2))
    this.attributes.update(num_groups=num_groups, num_channels=num_channels, eps=eps, weight=weight, bias=bias)


@member(group_norm, "forward")
def _group_norm(interpreter: Interpreter, this: Instance, input: Value) -> Value:  # noqa: A002
    held = this.attributes
    return interpreter.operator(
        "group_norm", (input, held["num_groups"], held["weight"], held["bias"], held["eps"]), {}
    )


conv1d = native_class("torch.nn.Conv1d", module)


@member(conv1d, "__init__")
def _conv1d_init(
    interpreter: Interpreter,
    this: Instance,
    in_channels: Value,
    out_channels: Value,
    kernel_size: Value,
    stride: Value = 1,
    padding: Value = 0,
    dilation: Value = 1,
    groups: Value = 1,
    bias: Value = True,
    **options: Value,
) -> None:
    kernel = tuple(kernel_size) if isinstance(kernel_size, tuple | list) else (kernel_size,)
    weight = parameter(interpreter, out_channels, quotient(in_channels, groups), *kernel)
    offset = parameter(interpreter, out_channels) if bias else None
    this.attributes.update(in_channels=in_channels, out_channels=out_channels, kernel_size=kernel, groups=groups)
    this.attributes.update(stride=(stride,), padding=(padding,), dilation=(dilation,), weight=weight, bias=offset)


@member(conv1d, "forward")
def _conv1d(interpreter: Interpreter, this: Instance, input: Value) -> Value:  # noqa: A002
    held = this.attributes
    options = {name: held[name] for name in ("stride", "padding", "dilation", "groups")}
    options = {key: each[0] if isinstance(each, tuple) else each for key, each in options.items()}
    return interpreter.operator("conv1d", (input, held["weight"], held["bias"]), options)


def _function_module(name: str, op: str, *parameters: str, **defaults: Any) -> NativeClass:
    """A leaf without parameters of its own: its constructor's arguments become the operator's."""
    cls = native_class(f"torch.nn.{name}", module)

    @member(cls, "__init__")
    def init(interpreter: Interpreter, this: Instance, *args: Value, **options: Value) -> None:
        given = dict(zip(parameters, args, strict=False)) | options
        this.attributes.update({key: given.get(key, defaults.get(key)) for key in parameters})

    @member(cls, "forward")
    def forward(interpreter: Interpreter, this: Instance, x: Value) -> Value:
        options = {key: each for key in parameters if (each := this.attributes[key]) is not None}
        return interpreter.operator(op, (x,), options)

    return cls


for _name, _op in (("Sigmoid", "sigmoid"), ("Tanh", "tanh"), ("LogSigmoid", "logsigmoid")):
    _function_module(_name, _op)
for _name in ("SiLU", "ReLU", "ReLU6", "Mish", "Hardswish"):
    _function_module(_name, _name.lower(), "inplace")
_function_module("GELU", "gelu", "approximate")
_function_module("Softmax", "softmax", "dim")
_function_module("LogSoftmax", "log_softmax", "dim")
_function_module("GLU", "glu", "dim", dim=-1)
_function_module("Hardtanh", "hardtanh", "min_val", "max_val")
_function_module("Softsign", "softsign")
_function_module("Flatten", "flatten", "start_dim", "end_dim", start_dim=1, end_dim=-1)
_function_module("Unflatten", "unflatten", "dim", "sizes")
_function_module("LeakyReLU", "leaky_relu", "negative_slope")
_function_module("Softplus", "softplus", "beta", "threshold")
_function_module("ELU", "elu", "alpha")
for _name in ("ZeroPad1d", "ZeroPad2d", "ConstantPad1d"):
    _function_module(_name, "pad", "padding", "value")

_identity = native_class("torch.nn.Identity", module)
member(_identity, "__init__", raw=True)(lambda interpreter, this, *args, **options: None)
member(_identity, "forward", raw=True)(lambda interpreter, this, x: x)


def _dropout_init(interpreter: Interpreter, this: Instance, p: Value = 0.5, inplace: Value = False) -> None:
    this.attributes.update(p=p, training=not interpreter.constructing)


def _dropout(interpreter: Interpreter, this: Instance, x: Value) -> Value:
    options = {name: attributes.get(interpreter, this, name) for name in ("p", "training")}
    return interpreter.call(external("torch.nn.functional.dropout"), [x], options)


for _name in ("Dropout", "Dropout1d", "AlphaDropout"):
    _cls = native_class(f"torch.nn.{_name}", module)
    member(_cls, "__init__", raw=True)(_dropout_init)
    member(_cls, "forward", raw=True)(_dropout)

for _name in ("CrossEntropyLoss", "BCEWithLogitsLoss", "MSELoss"):
    _cls = native_class(f"torch.nn.{_name}", module)
    member(_cls, "__init__", raw=True)(lambda interpreter, this, *args, **options: None)


@native("torch.nn.utils.parametrizations.weight_norm", raw=True)
def _parametrized(interpreter: Interpreter, *args: Value, **options: Value) -> Value:
    raise NotUnderstoodError("a parametrized module")

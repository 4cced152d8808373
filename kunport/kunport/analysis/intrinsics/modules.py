"""torch.nn: the module base class, containers, and the leaves that hold parameters or compute."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kunport_codegen.expression import unwrap
from kunport_codegen.graph import DType

from kunport.analysis.interpreter.signals import NotUnderstoodError, RaisedError
from kunport.analysis.intrinsics.registry import member, native, native_class
from kunport.analysis.shapes import TensorType
from kunport.analysis.values import Instance, Native, NativeClass, Tensor, Value, is_subclass

if TYPE_CHECKING:
    from kunport.analysis.interpreter import Interpreter

module = native_class("torch.nn.Module")
module.members["training"] = False


@member(module, "__init__", raw=True)
def _init(interpreter: Interpreter, this: Instance, *args: Value, **kwargs: Value) -> None:
    """Nothing to do; arguments are those of mixins further along."""


@member(module, "register_parameter", "register_module", "add_module", raw=True)
def _register(interpreter: Interpreter, this: Instance, name: Value, value: Value) -> None:
    this.attributes[interpreter.pin(name)] = value


@member(module, "register_buffer")
def _register_buffer(
    interpreter: Interpreter, this: Instance, name: Value, tensor: Value, persistent: Value = True
) -> None:
    this.attributes[name] = _buffer(interpreter, tensor, persistent)


def _buffer(interpreter: Interpreter, tensor: Value, persistent: Value = True) -> Value:
    """A saved buffer is a tensor of the checkpoint; another one stays what the constructor computed."""
    if not isinstance(tensor, Tensor):
        return tensor
    return interpreter.state(tensor.type, buffer=True) if persistent else Tensor(tensor.id, tensor.type)


@native("torch.nn.Buffer", "torch.nn.parameter.Buffer")
def _make_buffer(interpreter: Interpreter, data: Value, persistent: Value = True) -> Value:
    return _buffer(interpreter, data, persistent)


@native("torch.nn.Parameter", "torch.nn.parameter.Parameter")
def _make_parameter(interpreter: Interpreter, data: Value, requires_grad: Value = True) -> Value:
    return interpreter.state(data.type) if isinstance(data, Tensor) else data


def _children(this: Instance) -> list[Instance]:
    held = [*this.attributes.values(), *_items(this)]
    return [each for each in held if isinstance(each, Instance) and is_subclass(each.cls, module.name)]


def _items(this: Instance) -> list[Value]:
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


@member(module, "apply", "train", "eval", "to", "requires_grad_", "float", "half", "cuda", "cpu", "compile", raw=True)
def _itself(interpreter: Interpreter, this: Instance, *args: Value, **options: Value) -> Value:
    return this


@member(module, "extra_repr", "register_forward_hook", "register_forward_pre_hook", raw=True)
@member(module, "_register_load_state_dict_pre_hook", "register_load_state_dict_pre_hook", raw=True)
def _nothing(interpreter: Interpreter, this: Instance, *args: Value, **options: Value) -> None:
    return None


# Containers.
sequence = native_class("torch.nn.ModuleList", module)
sequential = native_class("torch.nn.Sequential", module)
parameter_list = native_class("torch.nn.ParameterList", module)
dictionary = native_class("torch.nn.ModuleDict", module)
parameter_dictionary = native_class("torch.nn.ParameterDict", module)


@member(sequence, "__init__", raw=True)
@member(parameter_list, "__init__", raw=True)
def _list_init(interpreter: Interpreter, this: Instance, values: Value = ()) -> None:
    this.items = list(interpreter.iterate(values)) if values is not None else []


@member(sequential, "__init__", raw=True)
def _sequential_init(interpreter: Interpreter, this: Instance, *values: Value) -> None:
    named = len(values) == 1 and (isinstance(values[0], dict) or is_subclass(values[0].cls, "collections.OrderedDict"))
    this.items = dict(interpreter.mapping(values[0])) if named else list(values)


@member(dictionary, "__init__", raw=True)
@member(parameter_dictionary, "__init__", raw=True)
def _dictionary_init(interpreter: Interpreter, this: Instance, values: Value = ()) -> None:
    this.items = dict(interpreter.mapping(values or ()))


def _getitem(interpreter: Interpreter, this: Instance, key: Value) -> Value:
    if isinstance(key, slice) and isinstance(this.items, list):
        part = this.items[slice(*(unwrap(each) for each in (key.start, key.stop, key.step)))]
        return Instance(this.cls, items=part, path=this.path)
    bare = interpreter.pin(key)
    try:
        return this.items[bare] if isinstance(this.items, dict) and isinstance(bare, str) else _items(this)[bare]
    except (KeyError, IndexError) as error:
        raise RaisedError(type(error).__name__, str(error)) from None


def _setitem(interpreter: Interpreter, this: Instance, key: Value, value: Value) -> None:
    interpreter.set_item(this.items, key, value)


def _contains(interpreter: Interpreter, this: Instance, key: Value) -> Value:
    return interpreter.pin(key) in (this.items or ())


_CONTAINED: dict[str, Any] = {
    "__getitem__": _getitem,
    "__setitem__": _setitem,
    "__contains__": _contains,
    "__len__": lambda interpreter, this: len(this.items),
    "__iter__": lambda interpreter, this: list(this.items),
    "append": lambda interpreter, this, value: this.items.append(value),
    "extend": lambda interpreter, this, values: this.items.extend(interpreter.iterate(values)),
    "insert": lambda interpreter, this, at, value: this.items.insert(unwrap(at), value),
    "keys": lambda interpreter, this: list(this.items),
    "values": lambda interpreter, this: list(this.items.values()),
    "items": lambda interpreter, this: list(this.items.items()),
    "update": lambda interpreter, this, values: this.items.update(interpreter.mapping(values)),
}
for _cls in (sequence, sequential, parameter_list, dictionary, parameter_dictionary):
    for _name, _function in _CONTAINED.items():
        _cls.members[_name] = Native(f"{_cls.name}.{_name}", _function, raw=True)


@member(sequential, "forward", raw=True)
def _sequential_forward(interpreter: Interpreter, this: Instance, x: Value) -> Value:
    for each in _items(this):
        x = interpreter.call(each, [x], {})
    return x


# Leaves: each is its functional operator on its own parameters.


def _parameter(interpreter: Interpreter, *shape: Value, dtype: Value = None) -> Value:
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
    weight = _parameter(interpreter, out_features, in_features, dtype=dtype)
    offset = _parameter(interpreter, out_features, dtype=dtype) if interpreter.pin(bias) else None
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
    **options: Value,
) -> None:
    weight = _parameter(interpreter, num_embeddings, embedding_dim, dtype=options.get("dtype"))
    this.attributes.update(
        num_embeddings=num_embeddings, embedding_dim=embedding_dim, padding_idx=padding_idx, weight=weight
    )


@member(embedding, "forward")
def _embedding(interpreter: Interpreter, this: Instance, input: Value) -> Value:  # noqa: A002
    return interpreter.operator("embedding", (input, this.attributes["weight"]), {})


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
        weight = _parameter(interpreter, *shape, dtype=dtype) if elementwise_affine else None
        this.attributes.update(normalized_shape=shape, eps=eps, weight=weight)
        if op == "layer_norm":
            this.attributes["bias"] = (
                _parameter(interpreter, *shape, dtype=dtype) if elementwise_affine and bias else None
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
    weight, bias = (_parameter(interpreter, num_channels) if affine else None for _ in range(2))
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
    from kunport.analysis.shapes.sizes import quotient

    kernel = tuple(kernel_size) if isinstance(kernel_size, tuple | list) else (kernel_size,)
    weight = _parameter(interpreter, out_channels, quotient(in_channels, groups), *kernel)
    offset = _parameter(interpreter, out_channels) if bias else None
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


for _name, _op in (("SiLU", "silu"), ("ReLU", "relu"), ("ReLU6", "relu6"), ("Sigmoid", "sigmoid"), ("Tanh", "tanh")):
    _function_module(_name, _op)
for _name, _op in (("Mish", "mish"), ("Hardswish", "hardswish"), ("LogSigmoid", "logsigmoid")):
    _function_module(_name, _op)
_function_module("GELU", "gelu", "approximate")
_function_module("Softmax", "softmax", "dim")
_function_module("LeakyReLU", "leaky_relu", "negative_slope")
_function_module("Softplus", "softplus", "beta", "threshold")
_function_module("ELU", "elu", "alpha")
for _name in ("ZeroPad1d", "ZeroPad2d", "ConstantPad1d"):
    _function_module(_name, "pad", "padding", "value")

for _name in ("Dropout", "Identity", "Dropout1d", "AlphaDropout"):
    _cls = native_class(f"torch.nn.{_name}", module)
    member(_cls, "__init__", raw=True)(lambda interpreter, this, *args, **options: None)
    member(_cls, "forward", raw=True)(lambda interpreter, this, x: x)

for _name in ("CrossEntropyLoss", "BCEWithLogitsLoss", "MSELoss"):
    _cls = native_class(f"torch.nn.{_name}", module)
    member(_cls, "__init__", raw=True)(lambda interpreter, this, *args, **options: None)


@native("torch.nn.utils.parametrizations.weight_norm", raw=True)
def _parametrized(interpreter: Interpreter, *args: Value, **options: Value) -> Value:
    raise NotUnderstoodError("a parametrized module")

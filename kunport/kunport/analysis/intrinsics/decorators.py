"""Decorators that leave what they decorate as it is, as far as one eager forward pass without a cache goes.

They are listed by name: a decorator that is neither here nor read from source makes what it decorates unknown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kunport.analysis.interpreter.contexts import MARK
from kunport.analysis.intrinsics.registry import NAMES, native
from kunport.analysis.parameters import named as parameter_names
from kunport.analysis.values import Function, Instance, Native, SourceClass, Value

if TYPE_CHECKING:
    from kunport.analysis.interpreter import Interpreter

# Used bare and called: ``@auto_docstring`` and ``@auto_docstring(checkpoint=...)``.
_IDENTITIES = (
    "transformers.utils.auto_docstring.auto_docstring",
    "transformers.utils.generic.can_return_tuple",
    "transformers.utils.generic.merge_with_config_defaults",
    "transformers.utils.generic.check_model_inputs",
    "transformers.utils.output_capturing.capture_outputs",
    "transformers.utils.deprecation.deprecate_kwarg",
    "transformers.integrations.hub_kernels.use_kernel_forward_from_hub",
    "transformers.integrations.hub_kernels.use_kernel_func_from_hub",
    "transformers.integrations.moe.use_experts_implementation",
    "transformers.utils.doc.add_start_docstrings",
    "transformers.utils.doc.add_start_docstrings_to_model_forward",
    "transformers.utils.doc.add_end_docstrings",
    "transformers.utils.doc.add_code_sample_docstrings",
    "transformers.utils.doc.replace_return_docstrings",
    "huggingface_hub.dataclasses.strict",
    "typing_extensions.dataclass_transform",
    "typing.dataclass_transform",
    "torch.no_grad",
    "torch.inference_mode",
    "torch.enable_grad",
    "torch.compile",
    "torch.compiler.disable",
    "torch.compiler.allow_in_graph",
    "torch._dynamo.disable",
    "torch._dynamo.allow_in_graph",
    "torch.cuda.amp.custom_fwd",
    "torch.cuda.amp.custom_bwd",
    "torch.amp.custom_fwd",
    "torch.amp.custom_bwd",
    "torch.jit.export",
    "torch.jit.script",
    "torch.jit.ignore",
    "torch.jit.unused",
    "torch.jit.script_if_tracing",
    "functools.lru_cache",
    "functools.cache",
    "abc.abstractmethod",
    "typing.overload",
    "typing.runtime_checkable",
)


def _decorated(value: Value) -> bool:
    return isinstance(value, Function | SourceClass)


def _identity(interpreter: Interpreter, *args: Value, **kwargs: Value) -> Value:
    """Applied to a function or class: gives it back. Otherwise configured: gives the decorator (or context manager)."""
    if len(args) == 1 and not kwargs and _decorated(args[0]):
        return args[0]
    return Native("decorator", lambda it, value: value, raw=True)


for _name in _IDENTITIES:
    NAMES[_name] = Native(_name, _identity, raw=True)


@native("transformers.integrations.hub_kernels.use_kernelized_func", raw=True)
def _always_configured(interpreter: Interpreter, *args: Value, **kwargs: Value) -> Value:
    """Its argument is a function that a kernel may replace, not what it decorates."""
    return Native("decorator", lambda it, value: value, raw=True)


@native("transformers.integrations.hub_kernels.use_kernel_func_from_hub_with_fallback", raw=True)
def _with_fallback(interpreter: Interpreter, *args: Value, **options: Value) -> Value:
    """No kernel and no optional package: the source's own function, without the arguments that it does not take."""

    def decorate(it: Interpreter, function: Value) -> Value:
        parameters = function.node.args
        known = set(parameter_names(parameters))

        def call(inner: Interpreter, *values: Value, **named: Value) -> Value:
            taken = {key: each for key, each in named.items() if key in known or parameters.kwarg is not None}
            return inner.call(function, list(values), taken)

        return Native(function.name, call, raw=True)

    return Native("decorator", decorate, raw=True)


@native("transformers.modeling_rope_utils.dynamic_rope_update", raw=True)
def _rope_update(interpreter: Interpreter, function: Value) -> Value:
    """Frequencies that change with the length of the sequence are read as they are up to the original length."""

    def call(it: Interpreter, this: Instance, *args: Value, **named: Value) -> Value:
        kind = this.attributes.get("rope_type")
        if (layer := named.get("layer_type")) is not None:
            kind = it.item(kind, layer)
        if "dynamic" in it.pin(kind) or it.pin(kind) == "longrope":
            it.trace.note(f"{it.trace.where}: the frequencies are those of sequences up to the original length")
        return it.call(function, [this, *args], named)

    return Native("forward", call, raw=True)


@native("transformers.utils.doc.copy_func", raw=True)
def _same(interpreter: Interpreter, function: Value) -> Value:
    return function


@native("functools.wraps", raw=True)
def _wraps(interpreter: Interpreter, wrapped: Value, *args: Value, **kwargs: Value) -> Value:
    def name(it: Interpreter, wrapper: Value) -> Value:
        if isinstance(wrapper, Function):
            wrapper.name = getattr(wrapped, "name", wrapper.name)
        return wrapper

    return Native("functools.wraps", name, raw=True)


@native("functools.total_ordering", "dataclasses.dataclass_transform", "typing.final", raw=True)
def _unchanged(interpreter: Interpreter, cls: Value) -> Value:
    return cls


@native("dataclasses.dataclass", "attr.s", "attr.attrs", "attr.define", "attr.frozen", "attrs.define", raw=True)
def _dataclass(interpreter: Interpreter, cls: Value = None, **options: Value) -> Value:
    if cls is None:
        return Native("dataclasses.dataclass", _dataclass, raw=True)
    if isinstance(cls, SourceClass):
        cls.record = True
    return cls


@native("contextlib.contextmanager", raw=True)
def _context_manager(interpreter: Interpreter, function: Value) -> Value:
    if isinstance(function, Function):
        function.attributes[MARK] = True
    return function

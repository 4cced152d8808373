"""One written form for each operator's arguments, however the source gave them.

Torch offers ``x.mean(-1, True)``, ``torch.mean(input=x, axis=-1, keepdim=True)`` and more for one operator. A node
always has the parameters before ``|`` by position and those after it by name, and only those that differ
from their default. Operators without an entry keep their arguments as they stand.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Any

from kunport_codegen.expression import Scalar

_TABLE = """
linear: x, weight, bias=None |
embedding: x, weight | padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False
layer_norm: x, normalized_shape, weight=None, bias=None, eps=1e-05 |
rms_norm: x, normalized_shape, weight=None, eps=None |
group_norm: x, num_groups, weight=None, bias=None, eps=1e-05 |
normalize: x | p=2.0, dim=1, eps=1e-12
softmax log_softmax: x | dim=None, dtype=None
sum mean prod: x | dim=None, keepdim=False, dtype=None
amax amin argmax argmin all any logsumexp: x | dim=None, keepdim=False
max min: x | dim=None, keepdim=False, other=None
var std var_mean: x | dim=None, unbiased=True, keepdim=False, correction=1
norm vector_norm: x | p=2, dim=None, keepdim=False, dtype=None
cumsum cumprod: x | dim, dtype=None
topk: x, k | dim=-1, largest=True, sorted=True
sort argsort: x | dim=-1, descending=False, stable=False
transpose: x, dim0, dim1 |
unsqueeze: x, dim |
flatten: x, start_dim=0, end_dim=-1 |
unflatten: x, dim, sizes |
movedim: x, source, destination |
split: x, split_size | dim=0
chunk: x, chunks | dim=0
unbind: x | dim=0
cat stack: tensors | dim=0
repeat_interleave: x, repeats | dim=None, output_size=None
gather: x, dim, index |
index_select: x, dim, index |
index_add: x, dim, index, source | alpha=1
index_copy: x, dim, index, source |
scatter: x, dim, index, src | reduce=None
scatter_add: x, dim, index, src |
masked_fill: x, mask, value |
where: condition, x, other |
one_hot: x | num_classes=-1
clamp: x | min=None, max=None
pad: x, pad | mode='constant', value=None
pow: x, exponent |
div: x, other | rounding_mode=None
add sub: x, other | alpha=1
baddbmm: x, batch1, batch2 | beta=1, alpha=1
addmm: x, mat1, mat2 | beta=1, alpha=1
mul matmul floor_divide remainder maximum minimum eq ne lt le gt ge: x, other |
bitwise_and bitwise_or bitwise_xor logical_and logical_or: x, other |
gelu: x | approximate='none'
leaky_relu: x | negative_slope=0.01
softplus: x | beta=1, threshold=20
silu relu sigmoid tanh exp log rsqrt sqrt sin cos neg abs square erf reciprocal: x |
tril triu: x | diagonal=0
diff: x | n=1, dim=-1
roll: x, shifts | dims=None
arange: start, end, step |
full: size, fill_value | dtype=None
conv1d: x, weight, bias=None | stride=1, padding=0, dilation=1, groups=1
to: x, dtype |
"""
# Torch's other names of a parameter.
_SYNONYMS = {"input": "x", "self": "x", "axis": "dim", "keepdims": "keepdim", "dims": "dim", "tensor": "x", "a": "x"}
_SPECIFIC = {
    "split": {"split_size_or_sections": "split_size", "split_sizes": "split_size"},
    "where": {"self": "x", "input": "x"},
    "cat": {"tensors": "tensors"},
    "scatter": {"value": "src"},
    "index_add": {"tensor": "source"},
    "index_copy": {"tensor": "source"},
    "roll": {"dims": "dims"},
    "pow": {"other": "exponent"},
    "pad": {"padding": "pad"},
    "unflatten": {"sizes": "sizes"},
}
# Arguments that say where a tensor lies or how it is made, not what it is.
IRRELEVANT = {
    *(
        "device",
        "layout",
        "requires_grad",
        "pin_memory",
        "memory_format",
        "non_blocking",
        "copy",
        "inplace",
        "training",
    ),
    *("out", "generator", "_stacklevel"),
}
_REQUIRED = object()


@dataclass(frozen=True, slots=True)
class Signature:
    """Parameters with their defaults, of which the first ``positional`` are written by position."""

    names: tuple[str, ...]
    defaults: tuple[Any, ...]
    positional: int
    synonyms: dict[str, str]


def _read() -> dict[str, Signature]:
    table: dict[str, Signature] = {}
    for line in _TABLE.strip().splitlines():
        ops, _, rest = line.partition(":")
        before, _, after = rest.partition("|")
        names: list[str] = []
        defaults: list[Any] = []
        for part in [*before.split(","), *after.split(",")]:
            if name := part.strip():
                name, given, default = name.partition("=")
                names.append(name)
                defaults.append(ast.literal_eval(default) if given else _REQUIRED)
        for op in ops.split():
            positional = len([part for part in before.split(",") if part.strip()])
            synonyms = {**_SYNONYMS, **_SPECIFIC.get(op, {})}
            table[op] = Signature(tuple(names), tuple(defaults), positional, synonyms)
    return table


_SIGNATURES = _read()


def normalize(op: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments in the operator's written form. Arguments that do not fit it are left as they are."""
    named = {key: value for key, value in kwargs.items() if key not in IRRELEVANT}
    signature = _SIGNATURES.get(op)
    if signature is None:
        first = {"input", "self"} & named.keys()
        return ((named.pop(first.pop()), *args), named) if first and not args else (args, named)
    bound = dict(zip(signature.names, args, strict=False))
    for key, value in named.items():
        name = key if key in signature.names else signature.synonyms.get(key, key)
        if name not in signature.names or name in bound:
            return args, named
        bound[name] = value
    if len(args) > len(signature.names):
        return args, named
    return _written(signature, bound)


def _written(signature: Signature, bound: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    leading = signature.names[: signature.positional]
    last = max((at for at, name in enumerate(leading) if name in bound), default=-1)
    defaults = dict(zip(signature.names, signature.defaults, strict=True))
    positional = tuple(bound.get(name, defaults[name]) for name in leading[: last + 1])
    named = {
        name: bound[name]
        for name in signature.names[signature.positional :]
        if name in bound and not _same(bound[name], defaults[name])
    }
    return positional, named


def _same(value: Any, default: Any) -> bool:
    return not isinstance(value, Scalar) and type(value) is type(default) and value == default

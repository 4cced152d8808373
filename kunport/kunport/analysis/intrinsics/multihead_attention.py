"""torch.nn.MultiheadAttention where it attends a sequence to itself: one projection, and another of the result."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kunport_codegen.expression import unwrap

from kunport.analysis.interpreter.operations import scalar_operator
from kunport.analysis.interpreter.signals import NotUnderstoodError
from kunport.analysis.intrinsics.module_leaves import linear, parameter
from kunport.analysis.intrinsics.modules import module
from kunport.analysis.intrinsics.registry import external, member, native_class
from kunport.analysis.values import Instance, Opaque, Tensor, Value

if TYPE_CHECKING:
    from kunport.analysis.interpreter import Interpreter

attention = native_class("torch.nn.MultiheadAttention", module)
_PLAIN = {"add_bias_kv": False, "add_zero_attn": False, "kdim": None, "vdim": None}  # what is understood of these


@member(attention, "__init__", raw=True)
def _init(
    interpreter: Interpreter,
    this: Instance,
    embed_dim: Value,
    num_heads: Value,
    dropout: Value = 0.0,
    bias: Value = True,
    batch_first: Value = False,
    **options: Value,
) -> None:
    for name, plain in _PLAIN.items():
        if unwrap(options.get(name, plain)) not in (plain, unwrap(embed_dim)):
            raise NotUnderstoodError(f"torch.nn.MultiheadAttention with {name}")
    biased = interpreter.pin(bias)
    threefold = scalar_operator(interpreter, "mul", 3, embed_dim)
    this.attributes.update(
        embed_dim=embed_dim, num_heads=num_heads, batch_first=interpreter.pin(batch_first), has_bias=bias
    )
    this.attributes["in_proj_weight"] = parameter(interpreter, threefold, embed_dim)
    this.attributes["in_proj_bias"] = parameter(interpreter, threefold) if biased else None
    interpreter.set_attribute(this, "out_proj", interpreter.instantiate(linear, [embed_dim, embed_dim, bias], {}))


@member(attention, "forward", raw=True)
def _forward(
    interpreter: Interpreter,
    this: Instance,
    query: Value,
    key: Value,
    value: Value,
    key_padding_mask: Value = None,
    need_weights: Value = True,
    attn_mask: Value = None,
    average_attn_weights: Value = True,
    is_causal: Value = False,
) -> Value:
    """The result, and where they are asked for a stand-in for the weights, which nothing can be made of."""

    def method(tensor: Value, name: str, *args: Value, **named: Value) -> Value:
        return interpreter.call(interpreter.attribute(tensor, name), list(args), named)

    held = this.attributes
    if query is not key or query is not value or key_padding_mask is not None or not isinstance(query, Tensor):
        raise NotUnderstoodError("torch.nn.MultiheadAttention of several tensors, or with padding")
    if len(query.type.shape or ()) != 3:
        raise NotUnderstoodError("torch.nn.MultiheadAttention of a single sequence")
    heads, first = held["num_heads"], held["batch_first"]
    rows = query if first else method(query, "transpose", 0, 1)
    batch, length, _ = interpreter.iterate(interpreter.attribute(rows, "shape"))
    size = scalar_operator(interpreter, "floordiv", held["embed_dim"], heads)
    fused = interpreter.operator("linear", (rows, held["in_proj_weight"], held["in_proj_bias"]), {})
    operands = [
        method(method(part, "reshape", batch, length, heads, size), "transpose", 1, 2)
        for part in interpreter.iterate(method(fused, "chunk", 3, -1))
    ]
    options = {} if attn_mask is None else {"attn_mask": _shown(interpreter, attn_mask)}
    attend = external("torch.nn.functional.scaled_dot_product_attention")
    made = interpreter.call(attend, operands, options)
    joined = method(method(made, "transpose", 1, 2), "reshape", batch, length, held["embed_dim"])
    result = interpreter.call(held["out_proj"], [joined], {})
    weights = Opaque("the weights of torch.nn.MultiheadAttention", "not computed") if unwrap(need_weights) else None
    return result if first else method(result, "transpose", 0, 1), weights


def _shown(interpreter: Interpreter, mask: Value) -> Value:
    """A mask as torch's attention operator takes it, which is true for what is seen and not for what is hidden."""
    if not isinstance(mask, Tensor) or len(mask.type.shape or ()) != 2:
        raise NotUnderstoodError("a mask of torch.nn.MultiheadAttention for each head")
    of_truths = mask.type.dtype is not None and mask.type.dtype.name == "bool"
    return interpreter.operator("logical_not", (mask,), {}) if of_truths else mask

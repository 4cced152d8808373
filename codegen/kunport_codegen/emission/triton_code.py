"""Row-wise operators as Triton: computed in float32, and rounded wherever the source's dtype rounds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kunport_codegen.emission.identifiers import EmissionError, literal
from kunport_codegen.expression import Expr, Scalar, unwrap
from kunport_codegen.graph import Ref
from kunport_codegen.lowering.flow import Op

_INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
# One operand. What decides between two values keeps NaN, as torch does: Triton's own minimum and maximum may not.
_UNARY = {
    "neg": "-{0}",
    "square": "{0} * {0}",
    "sqrt": "tl.sqrt({0})",
    "rsqrt": "1.0 / tl.sqrt({0})",
    "exp": "tl.exp({0})",
    "log": "tl.log({0})",
    "abs": "tl.abs({0})",
    "reciprocal": "1.0 / {0}",
    "tanh": "tanh({0})",
    "sigmoid": "sigmoid({0})",
    "silu": "{0} * sigmoid({0})",
    "relu": "tl.where({0} <= 0.0, 0.0, {0})",
    "to": "{0}",
    "float": "{0}",
}
_POWERS = {2: "{0} * {0}", 3: "{0} * {0} * {0}", 0.5: "tl.sqrt({0})", -0.5: "1.0 / tl.sqrt({0})", -1: "1.0 / {0}"}
_REDUCTIONS = {
    "sum": "tl.sum(tl.where(inside, {0}, 0.0), axis=0)",
    "mean": "tl.sum(tl.where(inside, {0}, 0.0), axis=0) / width",
    "amax": 'tl.max(tl.where(inside, {0}, float("-inf")), axis=0)',
}
_GELU = {
    "none": "0.5 * {0} * (1.0 + tl.erf({0} * 0.7071067811865476))",
    # 1 + tanh(u) = 2 sigmoid(2 u)
    "tanh": "{0} * sigmoid(1.5957691216057308 * ({0} + 0.044715 * {0} * {0} * {0}))",
}


@dataclass(frozen=True, slots=True)
class Rounded:
    """To which precision a value is rounded: ``model`` or ``float32``, in which it is computed."""

    dtype: str

    def __call__(self, text: str) -> str:
        return f"({text}).to(model).to(tl.float32)" if self.dtype == "model" else text


def value_of(step: Op, name: str, held: Mapping[int, str], numbers: Mapping[Expr, str], rounded: Rounded) -> str:
    """The line that computes a step's result under a name.

    Args:
        step: a row-wise operator.
        name: of the variable.
        held: value -> the variable that holds it.
        numbers: expression on the configuration -> the parameter that holds it.
        rounded: how the result is rounded.
    """

    def write(arg: Any) -> str:
        if isinstance(arg, Ref):
            return held[arg.id]
        expr = arg.expr if isinstance(arg, Scalar) else arg
        if isinstance(expr, Expr) and expr in numbers:
            return numbers[expr]
        text = literal(unwrap(arg))
        return f"({text})" if text.startswith("-") else text

    if step.name.startswith("clamp"):
        text = _clamped(step, write(step.args[0]), write)
    else:
        text = _expression(step, [write(arg) for arg in _operands(step)])
    return f"{name} = {rounded(text)}"


def _operands(step: Op) -> list[Any]:
    """The operands that are numbers or tensors."""
    if step.name in ("to", "pow", "gelu", *_REDUCTIONS):
        return [step.args[0]]
    return list(step.args)


def _clamped(step: Op, value: str, write: Callable[[Any], str]) -> str:
    """Between bounds; NaN stays, as it does in torch."""
    order = ("max",) if step.name == "clamp_max" else ("min", "max")
    bounds = dict(zip(order, step.args[1:], strict=False)) | step.kwargs
    for which, sign in (("min", "<"), ("max", ">")):
        if bounds.get(which) is not None:
            bound = write(bounds[which])
            value = f"tl.where({value} {sign} {bound}, {bound}, {value})"
    return value


def _expression(step: Op, args: list[str]) -> str:
    name = step.name
    if name in _INFIX:
        return f"{args[0]} {_INFIX[name]} {args[1]}"
    if name == "maximum":
        return f"tl.where(({args[0]} > {args[1]}) | ({args[0]} != {args[0]}), {args[0]}, {args[1]})"
    if name == "minimum":
        return f"tl.where(({args[0]} < {args[1]}) | ({args[0]} != {args[0]}), {args[0]}, {args[1]})"
    if name == "pow":
        return _POWERS[unwrap(step.args[1])].format(args[0])
    if name == "gelu":
        return _GELU[step.kwargs.get("approximate", "none")].format(args[0])
    forms = _UNARY | _REDUCTIONS
    if name not in forms:
        raise EmissionError(f"no kernel is written for {name}")
    return forms[name].format(*args)

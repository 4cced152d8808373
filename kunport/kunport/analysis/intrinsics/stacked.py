"""``stack`` and ``cat`` of lists that a loop over sizes filled: their operand is the tensor that holds the list."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kunport.analysis.intrinsics.registry import native
from kunport.analysis.values import Stacked, Value

if TYPE_CHECKING:
    from kunport.analysis.interpreter import Interpreter


def _joining(name: str, *others: str) -> None:
    @native(*(f"torch.{each}" for each in (name, *others)))
    def join(interpreter: Interpreter, tensors: Value, *args: Value, **options: Value) -> Value:
        held = tensors.rows if isinstance(tensors, Stacked) else tensors
        return interpreter.operator(name, (held, *args), options)


_joining("stack")
_joining("cat", "concat", "concatenate")

"""The names that layers have in their model, under which the account of operators counts what they run."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from torch import nn

from kunport_runtime.operators.accounting import layer

_Result = TypeVar("_Result")


class Named:
    """Mixed into a layer that runs operators."""

    operators: tuple[str, ...] = ()
    """Those that it may run."""
    layer_name = ""
    """Its path in the model, the first where several share it (as all layers share one rotary embedding)."""


def counted(forward: Callable[..., _Result]) -> Callable[..., _Result]:
    """Count the operators that a layer's method runs under the layer's name."""

    @wraps(forward)
    def method(self: Any, *arguments: Any, **options: Any) -> _Result:
        with layer(self.layer_name):
            return forward(self, *arguments, **options)

    return method


def name_layers(model: nn.Module) -> None:
    """Tell every layer of ours its name."""
    for name, module in model.named_modules():
        if isinstance(module, Named):
            module.layer_name = name

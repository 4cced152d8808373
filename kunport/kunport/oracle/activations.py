"""Activations by the field's names."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "silu": functional.silu,
    "gelu": functional.gelu,
    "gelu_tanh": lambda tensor: functional.gelu(tensor, approximate="tanh"),
    "quick_gelu": lambda tensor: tensor * torch.sigmoid(1.702 * tensor),
    "relu": functional.relu,
    "relu2": lambda tensor: functional.relu(tensor).square(),
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
}
OTHER_NAMES = {
    "silu": ["swish"],
    "gelu_tanh": ["gelu_pytorch_tanh", "gelu_new", "gelu_fast"],
    "relu2": ["relu_squared"],
}

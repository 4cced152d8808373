"""Which kind of token mixer a layer without softmax attention has, by the parameters that only that kind has."""

from __future__ import annotations

from torch import nn

from kunport.oracle.structure import Layer

STATE = {
    "softmax": ["kv"],
    "mla": ["kv"],
    "differential": ["kv"],
    "linear": ["linear"],
    "gated_delta": ["conv", "delta"],
    "mamba": ["conv", "ssm"],
    "mamba2": ["conv", "ssm"],
    "rg_lru": ["conv", "rg_lru"],
    "rwkv": ["rwkv"],
    "mlstm": ["mlstm"],
    "short_convolution": ["conv"],
    "none": [],
}


def mixer_kinds(layer: Layer) -> list[str]:
    """The kinds found among the modules that ran in the layer, softmax attention left out."""
    called = dict.fromkeys(call.module for call in layer.calls)
    return list(dict.fromkeys(kind for module in called if (kind := kind_of(module))))


def kind_of(module: nn.Module) -> str:
    """The kind that a module's own parameters and children show, "" for none."""
    own = {name: parameter.ndim for name, parameter in module.named_parameters(recurse=False)}
    below = {name for name, _ in module.named_modules()}
    buffers = {name for name, _ in module.named_buffers(recurse=False)}
    if own.get("A_log", 0) >= 2 and "D" in own and ("x_proj" in below or "x_proj_weight" in own):
        return "mamba"
    if own.get("A_log") == 1 and "D" in own and "dt_bias" in own:
        return "mamba2"
    if own.get("A_log") == 1 and "dt_bias" in own and "D" not in own:
        return "gated_delta"
    if "recurrent_param" in own:
        return "rg_lru"
    if "time_decay" in own:
        return "rwkv"
    if {"igate_preact", "fgate_preact"} <= below:
        return "mlstm"
    if "slope_rate" in buffers:
        return "linear"
    if {"in_proj", "out_proj", "conv"} <= below and not own:
        return "short_convolution"
    return ""

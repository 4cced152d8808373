"""What each operator with a state computes, token by token, in numpy: the runtime's contracts say the same in torch.

Tensors over tokens are ``[batch, sequence, ...]``; a sequence starts without a state.
"""

from __future__ import annotations

import numpy as np

from kunport_codegen.recognition.elementwise import sigmoid, softplus
from kunport_codegen.recognition.rules import Array


def mamba1_scan(x: Array, dt: Array, a: Array, b: Array, c: Array) -> Array:
    """``x``, ``dt`` ``[b, s, channels]``, the step after its softplus; ``a`` ``[channels, states]``; ``b``, ``c``
    ``[b, s, states]``. Gu and Dao, 2023, https://arxiv.org/abs/2312.00752.
    """
    h = np.zeros((*x[:, 0].shape, a.shape[-1]))
    out = np.empty_like(x)
    for t in range(x.shape[1]):
        h = np.exp(dt[:, t, :, None] * a) * h + (dt[:, t] * x[:, t])[..., None] * b[:, t, None]
        out[:, t] = (h * c[:, t, None]).sum(-1)
    return out


def mamba2_scan(x: Array, dt: Array, a: Array, b: Array, c: Array) -> Array:
    """``x`` ``[b, s, heads, dim]``, ``dt`` ``[b, s, heads]`` after softplus and limits, ``a`` ``[heads]``, ``b``, ``c``
    ``[b, s, groups, states]``. Dao and Gu, 2024, https://arxiv.org/abs/2405.21060.
    """
    share = x.shape[2] // b.shape[2]
    b, c = np.repeat(b, share, axis=2), np.repeat(c, share, axis=2)
    h = np.zeros((*x[:, 0].shape, b.shape[-1]))
    out = np.empty_like(x)
    for t in range(x.shape[1]):
        step = dt[:, t, :, None]
        h = np.exp(dt[:, t] * a)[..., None, None] * h + (step * x[:, t])[..., None] * b[:, t, :, None]
        out[:, t] = (h * c[:, t, :, None]).sum(-1)
    return out


def gated_delta_rule(query: Array, key: Array, value: Array, decay: Array, beta: Array) -> Array:
    """``query``, ``key`` ``[b, s, key heads, dim]``, ``value`` ``[b, s, heads, dim]``, ``decay`` ``[b, s, heads]`` or
    ``[b, s, heads, key dim]``, ``beta`` ``[b, s, heads]``. Yang and others, 2024, https://arxiv.org/abs/2412.06464.
    """
    share = value.shape[2] // key.shape[2]
    query, key = np.repeat(query, share, axis=2), np.repeat(key, share, axis=2)
    kept = np.exp(decay if decay.ndim == 4 else decay[..., None])
    memory = np.zeros((*key[:, 0].shape, value.shape[-1]))
    out = np.empty_like(value)
    for t in range(value.shape[1]):
        memory = kept[:, t, ..., None] * memory
        recalled = (memory * key[:, t, ..., None]).sum(-2)
        change = beta[:, t, :, None] * (value[:, t] - recalled)
        memory = memory + key[:, t, ..., None] * change[:, :, None]
        out[:, t] = (memory * query[:, t, ..., None]).sum(-2)
    return out


def linear_attention(query: Array, key: Array, value: Array, decay: Array) -> Array:
    """``query``, ``key``, ``value`` ``[b, s, heads, dim]``, ``decay`` ``[heads]``. Qin and others, 2024,
    https://arxiv.org/abs/2401.04658.
    """
    kept = np.exp(decay)[:, None, None]
    memory = np.zeros((*key[:, 0].shape, value.shape[-1]))
    out = np.empty_like(value)
    for t in range(value.shape[1]):
        memory = kept * memory + key[:, t, ..., None] * value[:, t, :, None]
        out[:, t] = (memory * query[:, t, ..., None]).sum(-2)
    return out


def mlstm(
    query: Array, key: Array, value: Array, input_gate: Array, forget_gate: Array, scale: float, epsilon: float
) -> Array:
    """``query``, ``key``, ``value`` ``[b, s, heads, dim]``, the gates ``[b, s, heads]``. Beck and others, 2024,
    https://arxiv.org/abs/2405.04517.
    """
    forget = -softplus(-forget_gate)
    memory, normalizer = np.zeros((*key[:, 0].shape, value.shape[-1])), np.zeros(key[:, 0].shape)
    largest = np.zeros(forget[:, 0].shape)
    out = np.empty_like(value)
    for t in range(value.shape[1]):
        top = np.maximum(forget[:, t] + largest, input_gate[:, t])
        kept, entering = np.exp(forget[:, t] + largest - top)[..., None], np.exp(input_gate[:, t] - top)[..., None]
        written = entering * key[:, t]
        memory = kept[..., None] * memory + written[..., None] * value[:, t, :, None]
        normalizer, largest = kept * normalizer + written, top
        size = np.maximum(scale * np.abs((normalizer * query[:, t]).sum(-1)), np.exp(-largest)) + epsilon
        out[:, t] = scale * (memory * query[:, t, ..., None]).sum(-2) / size[..., None]
    return out


def rg_lru(x: Array, input_gate: Array, recurrence_gate: Array, a_parameter: Array) -> Array:
    """All but ``a_parameter`` ``[channels]`` are ``[b, s, channels]``. De and others, 2024,
    https://arxiv.org/abs/2402.19427.
    """
    log_a = -8 * sigmoid(recurrence_gate) * softplus(a_parameter)
    entering = sigmoid(input_gate) * x
    out = np.empty_like(x)
    h = out[:, 0] = entering[:, 0]
    for t in range(1, x.shape[1]):
        h = np.exp(log_a[:, t]) * h + np.sqrt(-np.expm1(2 * log_a[:, t])) * entering[:, t]
        out[:, t] = h
    return out


def rwkv(receptance: Array, key: Array, value: Array, time_decay: Array, time_first: Array) -> Array:
    """``receptance``, ``key``, ``value`` ``[b, s, channels]``, the others ``[channels]``. Peng and others, 2023,
    https://arxiv.org/abs/2305.13048.
    """
    kept = np.exp(-np.exp(time_decay))
    total, weight = np.zeros_like(value[:, 0]), np.zeros_like(value[:, 0])
    out = np.empty_like(value)
    for t in range(value.shape[1]):
        now, entering = np.exp(time_first + key[:, t]), np.exp(key[:, t])
        out[:, t] = sigmoid(receptance[:, t]) * (total + now * value[:, t]) / (weight + now)
        total, weight = kept * total + entering * value[:, t], kept * weight + entering
    return out

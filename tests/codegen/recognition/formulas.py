"""The formulas that facts stand for, written down once more to judge them by their numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from graph_builder import BATCH, SEQUENCE, run
from kunport.validation.executor.masks import additive_mask
from kunport_codegen.expression import unwrap
from kunport_codegen.facts import Activation, Attention, Experts, Facts, Norm, Rope
from kunport_codegen.graph import Graph
from kunport_codegen.recognition import recognize
from kunport_codegen.recognition.tables import frequencies_of
from torch.nn import functional

State = dict[str, np.ndarray]


def true_facts(graph: Graph) -> Facts:
    """The facts of a graph, each compared with the numbers that the graph's own nodes give."""
    facts = recognize(graph)
    inputs = {norm.input for norm in facts.norms} | {each.input for each in (*facts.ropes, *facts.activations)}
    inputs |= {each for found in facts.attentions for each in (found.query, found.key, found.value)}
    inputs |= {found.bias for found in facts.attentions if found.bias is not None}
    inputs |= {each for found in facts.experts for each in (found.input, found.weights, found.choice)}
    inputs |= {found.logits for found in facts.experts if found.logits is not None}
    single = (*facts.norms, *facts.ropes, *facts.attentions, *facts.experts, *facts.activations)
    values, state = run(graph, inputs | {each.output for each in single})
    for norm in facts.norms:
        _close(norm_value(norm, values[norm.input], state).reshape(values[norm.output].shape), values[norm.output])
    for rope in facts.ropes:
        _close(rope_value(rope, values[rope.input], graph.config), values[rope.output])
    for found in facts.attentions:
        _close(attention_value(found, values, state), values[found.output])
    for experts in facts.experts:
        routed = values[experts.weights], values[experts.choice]
        _close(experts_value(experts, values[experts.input], *routed, state), values[experts.output])
        if experts.logits is not None:
            routed = routed_by_formula(experts, values[experts.logits], state)
            _close(experts_value(experts, values[experts.input], *routed, state), values[experts.output])
    for activation in facts.activations:
        _close(activation_value(activation, values[activation.input]), values[activation.output])
    return facts


def _close(formula: np.ndarray, nodes: np.ndarray) -> None:
    np.testing.assert_allclose(formula, nodes, rtol=1e-3, atol=1e-5)


def norm_value(norm: Norm, x: np.ndarray, state: State) -> np.ndarray:
    if norm.groups is not None:
        x = x.reshape(*x.shape[: x.ndim - (2 if x.shape[-1] == norm.size else 1)], norm.groups, norm.size)
        state = {path: each.reshape(norm.groups, norm.size) for path, each in state.items() if path == norm.weight}
    if norm.kind == "layer":
        x = x - x.mean(-1, keepdims=True)
    statistic = (x**2).sum(-1, keepdims=True) if norm.kind == "l2" else (x**2).mean(-1, keepdims=True)
    result = x / np.sqrt(statistic + unwrap(norm.epsilon))
    if norm.weight is not None:
        result = result * (norm.offset + state[norm.weight])
    return result if norm.bias is None else result + state[norm.bias]


def rope_value(rope: Rope, x: np.ndarray, config: dict[str, Any]) -> np.ndarray:
    """Turns each pair as a complex number."""
    dim = 2 * ((unwrap(rope.table.rotary_dim) + 1) // 2)
    (axis,) = (axis for axis, size in enumerate(x.shape[:-1]) if size == SEQUENCE.value)
    angles = np.arange(SEQUENCE.value)[:, None] * frequencies_of(rope.table, config)
    angles = np.expand_dims(angles, tuple(range(1, x.ndim - axis - 1)))
    turned, rest = x[..., :dim], x[..., dim:]
    if rope.style == "half":
        pairs = turned[..., : dim // 2] + 1j * turned[..., dim // 2 :]
    else:
        pairs = turned[..., ::2] + 1j * turned[..., 1::2]
    pairs = pairs * np.exp(-1j * angles if rope.backwards else 1j * angles) * rope.table.scaling
    parts = (pairs.real, pairs.imag)
    apart = rope.style == "half" or rope.regrouped
    joined = np.concatenate(parts, -1) if apart else np.stack(parts, -1).reshape(turned.shape)
    return np.concatenate((joined, rest), -1)


def attention_value(found: Attention, values: dict[int, np.ndarray], state: State) -> np.ndarray:
    query, key, value = (values[each] for each in (found.query, found.key, found.value))
    key = key.swapaxes(-1, -2) if found.key_transposed else key
    groups = unwrap(found.heads) // unwrap(found.kv_heads)
    key, value = np.repeat(key, groups, 1), np.repeat(value, groups, 1)
    with np.errstate(invalid="ignore"):  # a changed graph may have no numbers here
        scores = unwrap(found.scale) * query @ key.swapaxes(-1, -2)
    if found.softcap is not None:
        scores = unwrap(found.softcap) * np.tanh(scores / unwrap(found.softcap))
    window = None if found.window is None else unwrap(found.window)
    sizes = (BATCH.value, SEQUENCE.value, torch.float32, torch.device("cpu"))
    if found.bias is not None:
        added = values[found.bias]
        merged = added.ndim == 3 and len(added) == len(query) * query.shape[1]
        scores = scores + (added.reshape(*query.shape[:2], *added.shape[1:]) if merged else added)
    scores = scores + additive_mask(found.mask, window, *sizes).numpy()
    if found.sinks is not None:
        sinks = np.broadcast_to(state[found.sinks][:, None, None], (*scores.shape[:-1], 1))
        scores = np.concatenate((scores, sinks), -1)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights = (weights / weights.sum(-1, keepdims=True))[..., : key.shape[2]]
    combined = weights @ value
    return combined if found.heads_first else combined.swapaxes(1, 2)


def experts_value(experts: Experts, x: np.ndarray, weights: np.ndarray, choice: np.ndarray, state: State) -> np.ndarray:
    """Every token's own loop over the experts it chose; the number after the last one's is none."""
    result = np.zeros_like(x)
    for token in range(len(x)):
        for weight, expert in zip(weights[token], choice[token].astype(int), strict=True):
            if expert == unwrap(experts.experts):
                assert experts.absent
                continue
            before, after = (weight, 1.0) if experts.weighted == "input" else (1.0, weight)
            result[token] += after * _expert(experts, expert, before * x[token], state)
    return result


def routed_by_formula(experts: Experts, logits: np.ndarray, state: State) -> tuple[np.ndarray, np.ndarray]:
    """Weights and choice ``[tokens, top_k]`` of a router that follows a formula."""
    weights, choice = [], []
    for each in logits:
        scores = _scores(experts.scoring, each)
        selection = scores + (state[experts.correction_bias] if experts.correction_bias else 0.0)
        if experts.groups is not None:
            selection = _best_groups(experts, selection)
        choice.append(np.argsort(-selection)[: unwrap(experts.top_k)])
        chosen = scores[choice[-1]]
        total = chosen.sum() + (unwrap(experts.epsilon) or 0.0) if experts.renormalize else 1.0
        weights.append(chosen / total * unwrap(experts.scale))
    return np.stack(weights), np.stack(choice)


def _scores(scoring: str, logits: np.ndarray) -> np.ndarray:
    if scoring == "softmax":
        raised = np.exp(logits - logits.max())
        return raised / raised.sum()
    return {
        "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
        "sqrt_softplus": lambda x: np.sqrt(np.log1p(np.exp(x))),
        "none": lambda x: x,
    }[scoring](logits)


def _best_groups(experts: Experts, selection: np.ndarray) -> np.ndarray:
    groups = selection.reshape(unwrap(experts.groups), -1)
    ordered = -np.sort(-groups)
    good = ordered[:, 0] if experts.group_score == "max" else ordered[:, :2].sum(-1)
    kept = np.argsort(-good)[: unwrap(experts.top_groups)]
    hidden = np.full_like(groups, -np.inf)
    hidden[kept] = groups[kept]
    return hidden.reshape(-1)


def _expert(experts: Experts, expert: int, x: np.ndarray, state: State) -> np.ndarray:
    """One expert's network on one token."""
    first, second = state[experts.gate_up][expert], state[experts.down][expert]
    if experts.transposed:
        first, second = first.T, second.T
    hidden = first @ x + (state[experts.gate_up_bias][expert] if experts.gate_up_bias else 0.0)
    act = lambda values: _ACTIVATIONS[experts.activation](torch.from_numpy(values)).numpy()  # noqa: E731
    if experts.gated:
        both = np.split(hidden, 2) if experts.packing.startswith("concatenated") else [hidden[::2], hidden[1::2]]
        gate, up = both[::-1] if experts.packing.endswith("up_first") else both
        limit = np.inf if experts.limit is None else unwrap(experts.limit)
        middle = act(np.minimum(gate, limit).copy()) * (np.clip(up, -limit, limit) + experts.up_offset)
    else:
        middle = act(hidden)
    return second @ middle + (state[experts.down_bias][expert] if experts.down_bias else 0.0)


def activation_value(activation: Activation, x: np.ndarray) -> np.ndarray:
    return _ACTIVATIONS[activation.name](torch.from_numpy(x)).numpy()


_ACTIVATIONS = {
    "silu": functional.silu,
    "gelu": functional.gelu,
    "gelu_tanh": lambda x: functional.gelu(x, approximate="tanh"),
    "quick_gelu": lambda x: x * torch.sigmoid(1.702 * x),
    "relu": functional.relu,
    "relu2": lambda x: functional.relu(x) ** 2,
}

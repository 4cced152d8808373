"""The labels of one layer's softmax attention."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from kunport.oracle.attention.normalised import find_qk_norm
from kunport.oracle.attention.output import find_clip, find_gate, has_late_sink
from kunport.oracle.attention.packing import find_packing
from kunport.oracle.attention.probe import TENSORS, Probe, ProbeError
from kunport.oracle.attention.rotation import Rotation, find_rotation
from kunport.oracle.attention.score_form import count_kv_heads, depends_on_content, find_score_form, find_sight
from kunport.oracle.config_fields import ConfigFields
from kunport.oracle.labels import Scope
from kunport.oracle.rope_law import find_law


def label_attention(probe: Probe, scope: Scope, fields: ConfigFields) -> None:
    """Label what the probe can tell of an attention and of its positions; say why for the rest."""
    try:
        _sizes(probe, scope)
    except ProbeError as error:
        scope.skip("attention", str(error))
        return
    steps: dict[str, Callable[[Probe, Scope], None]] = {
        "attention.gate": _gate,
        "attention.kind": _kind,
        "attention.window": lambda probe, scope: _sight(probe, scope, fields),
        "attention.bias": _bias,
        "attention.packing": _packing,
        "attention.qk_norm": _qk_norm,
        "attention.clip": lambda probe, scope: scope.label("attention.clip", find_clip(probe)),
        "position": lambda probe, scope: _positions(probe, scope, fields),
    }
    for key, step in steps.items():
        try:
            step(probe, scope)
        except ProbeError as error:
            scope.skip(key, str(error))


def _sizes(probe: Probe, scope: Scope) -> None:
    scores = probe.base.scores
    heads, _, head_dim = scores.query.shape
    scope.label("attention.heads", heads)
    scope.label("attention.head_dim", head_dim)
    if scores.value is not None:
        scope.label("attention.value_dim", scores.value.shape[-1])
    scope.label("attention.kv_heads", count_kv_heads(scores.key))


def _kind(probe: Probe, scope: Scope) -> None:
    names = {name for name, _ in probe.module.named_parameters(recurse=False)}
    if any(name.startswith("lambda_q") for name in names):
        scope.label("attention.kind", "differential")
        return
    if any(isinstance(module, nn.Conv1d) for module in probe.module.modules()):
        raise ProbeError("the attention holds a convolution")
    if "attention.gate" not in scope.values:
        raise ProbeError("what ends the attention is not known")
    scope.label("attention.kind", "mla" if probe.latent else "softmax")


def _gate(probe: Probe, scope: Scope) -> None:
    """Gate and sinks: what the combined heads are multiplied by tells of both."""
    try:
        scope.label("attention.gate", find_gate(probe))
        scope.label("attention.sinks", probe.base.scores.sink)
    except ProbeError:
        if not has_late_sink(probe):
            raise
        scope.label("attention.gate", None)
        scope.label("attention.sinks", True)


def _sight(probe: Probe, scope: Scope, fields: ConfigFields) -> None:
    sight = find_sight(probe.base.scores)
    if sight is None and depends_on_content(probe):
        scope.label("attention.indexer", True)
    if sight is None:
        raise ProbeError("the mask is neither causal, nor a window, nor chunks")
    limited = sight.window is not None or sight.chunk is not None
    if limited or max(fields.limits, default=0) < probe.length:
        scope.label("attention.window", sight.window)
        scope.label("attention.chunk", sight.chunk)
    else:
        scope.skip("attention.window", "the configuration names a limit that is longer than the probe")
    if not any("index" in name for name, _ in probe.module.named_modules()):
        scope.label("attention.indexer", False)


def _bias(probe: Probe, scope: Scope) -> None:
    linear = [leaf for leaf in probe.leaves if leaf not in probe.norms]
    biased = [leaf for leaf in linear if getattr(leaf, "bias", None) is not None]
    if not biased:
        scope.label("attention.bias", [])
        return
    if probe.latent:
        raise ProbeError("with a latent, which of q, k and v a bias belongs to is a matter of words")
    letters = {name[0] for name in TENSORS if probe.projections[name] in biased}
    if probe.output_projection in biased:
        letters.add("o")
    scope.label("attention.bias", sorted(letters))


def _packing(probe: Probe, scope: Scope) -> None:
    if probe.latent:
        raise ProbeError("with a latent, the packing is a matter of words")
    scope.label("attention.packing", *find_packing(probe))


def _qk_norm(probe: Probe, scope: Scope) -> None:
    place, span = find_qk_norm(probe)
    scope.label("attention.qk_norm", place)
    if span is not None:
        scope.label("attention.qk_norm_span", span)


def _positions(probe: Probe, scope: Scope, fields: ConfigFields) -> None:
    form = find_score_form(probe)
    scope.label("attention.softcap", form.softcap)
    scope.label("attention.alibi", form.alibi)
    query = find_rotation(probe)
    scaled = False
    if query.dims:
        scope.label("position.kind", "rope")
        scope.label("position.dims", query.dims, query.span)
        if query.pairing:
            scope.label("position.pairing", query.pairing)
        law = find_law(query, probe.base.scores.query.shape[-1], fields)
        if law.base is not None:
            scope.label("position.base", law.base)
        if law.scaling:
            scope.label("position.scaling", *law.scaling)
            scaled = law.scaling[0] != "default"
    else:
        scope.label("position.kind", "alibi" if form.alibi else "none")
    _scale(probe, scope, form.scale, query, scaled)


def _scale(probe: Probe, scope: Scope, scale: float, query: Rotation, scaled: bool) -> None:
    """The factor on the scores, with what multiplies the query alone on its way.

    A factor on query and key alike is that of a scaled rotation's tables.
    """
    if abs(query.gain - 1) < 1e-5:
        scope.label("attention.scale", scale)
        return
    try:
        key = find_rotation(probe, "key")
    except ProbeError:
        scope.skip("attention.scale", "what multiplies the key is not known")
        return
    if abs(key.gain - 1) < 1e-5:
        scope.label("attention.scale", scale * query.gain)
    elif scaled and abs(key.gain / query.gain - 1) < 1e-5:
        scope.label("attention.scale", scale)
    else:
        scope.skip("attention.scale", "query and key are both multiplied on their way")

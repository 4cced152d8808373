"""The labels of one case: builds the model, runs it and asks every probe."""

from __future__ import annotations

import json
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoModelForCausalLM

from kunport.oracle.attention.label import label_attention
from kunport.oracle.attention.probe import Probe, ProbeError
from kunport.oracle.config_fields import read_fields
from kunport.oracle.feedforward import find_parts, label_feedforward
from kunport.oracle.labels import Labels, Scope
from kunport.oracle.mixers import STATE, kind_of, mixer_kinds
from kunport.oracle.norm_form import NormForm
from kunport.oracle.norms import epsilon_sources, find_norms, label_norm, norm_shapes, read_in_half
from kunport.oracle.residual import label_residual
from kunport.oracle.router import find_choices, label_experts
from kunport.oracle.structure import Layer, find_layers, stacks_of
from kunport.oracle.vocabulary import Vocabulary
from kunport.oracle.watch import Record, watch
from kunport.tiny_models import find_case
from kunport.tiny_models.build import build_config, randomize

LENGTH = 29  # a prime that is no width of a tiny model, longer than three windows


class Subject:
    """The built model of a case, run once."""

    def __init__(self, case: str) -> None:
        self.case = find_case(case)
        self.config, self.model = self.build({})
        generator = torch.Generator().manual_seed(0)
        self.tokens = torch.randint(5, 250, (1, LENGTH), generator=generator)
        self.record = self.run(self.model)
        self.layers = find_layers(self.model, self.record)
        shapes = norm_shapes(self.model, self.record)
        self.forms = find_norms(self.model, shapes)
        modules = dict(self.model.named_modules())
        self.norms: dict[nn.Module, NormForm] = {modules[path]: form for path, form in self.forms.items()}
        self.halved = self._read_in_half()
        self.sources = epsilon_sources(lambda changes: self.build(changes)[1], self.config, self.forms, shapes)

    def _read_in_half(self) -> set[str]:
        _, model = self.build({}, "bfloat16")
        try:
            return read_in_half(model, self.run(model))
        except RuntimeError:  # a kernel that the CPU does not have in bfloat16
            return set()

    def build(self, changes: dict[str, Any], dtype: str = "float32") -> tuple[Any, nn.Module]:
        """Configuration and model, with fields of the configuration (dotted paths) changed."""
        config = build_config(self.case)
        for path, value in changes.items():
            *parents, name = path.split(".")
            holder = config
            for parent in parents:
                holder = getattr(holder, parent)
            setattr(holder, name, value)
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(config, dtype=dtype, attn_implementation="eager").eval()
        randomize(model)
        return config, model

    def run(self, model: nn.Module) -> Record:
        """What runs in a forward pass."""
        with torch.no_grad(), watch(model, LENGTH) as record:
            model(input_ids=self.tokens, use_cache=False)
        return record


def label_case(case: str) -> Labels:
    """The labels of the case called ``case``."""
    subject = Subject(case)
    labels = Labels(case, json.loads(subject.config.to_json_string()))
    for layer in subject.layers:
        labels.layers[layer.path] = _label_layer(subject, layer)
    _label_sharing(subject, labels)
    _label_model(subject, labels)
    return labels


def _label_layer(subject: Subject, layer: Layer) -> Scope:
    scope = Scope()
    for module, name in layer.names.items():
        if module in subject.norms and layer.call_of(module) is not None:
            path = next(path for path, each in subject.model.named_modules() if each is module)
            source, halved = subject.sources.get(path, ""), path in subject.halved
            label_norm(scope, name, subject.norms[module], source, halved=halved)
    owners = {scores.owner for scores in layer.scores}
    kinds = mixer_kinds(layer)
    _label_mixer(subject, layer, owners, kinds, scope)
    choices = find_choices(layer)
    if len(choices) == 1:
        label_experts(layer, choices[0], find_parts(layer), scope, subject.config)
    elif choices:
        scope.skip("router", "the layer has several mixtures of experts")
    elif not layer.scores and not kinds:
        scope.skip("mlp", "which part is the mixer is not known")
    elif _may_have_experts(layer):
        scope.skip("router", "experts are not given indices and weights")
        scope.skip("mlp", "the layer may have experts")
    else:
        label_feedforward(layer, scope)
    mixers = owners | {call.module for call in layer.calls if kind_of(call.module)}
    label_residual(layer, subject.norms, mixers, scope)
    return scope


def _may_have_experts(layer: Layer) -> bool:
    """Whether a matrix for each of several things is a parameter, outside mixers and convolutions."""
    outside = [m for m in layer.module.modules() if not kind_of(m) and not isinstance(m, nn.Conv1d)]
    parameters = (parameter for module in outside for parameter in module.parameters(recurse=False))
    return any(parameter.ndim == 3 and len(parameter) > 1 for parameter in parameters)


def _convolves_outside_mixers(layer: Layer) -> bool:
    """Whether a convolution is neither in a known mixer nor beside one in its block."""
    inside = {each for module in layer.module.modules() if kind_of(module) for each in module.modules()}
    parents = {module for module in layer.module.modules() if any(kind_of(child) for child in module.children())}
    known = inside | {child for parent in parents for child in parent.children()}
    return any(isinstance(module, nn.Conv1d) and module not in known for module in layer.module.modules())


def _label_mixer(subject: Subject, layer: Layer, owners: set[nn.Module], kinds: list[str], scope: Scope) -> None:
    if len(owners) > 1:
        scope.skip("attention", "the layer has several softmax attentions")
        return
    if not owners:
        if len(kinds) == 1:
            scope.label("attention.kind", kinds[0])
        else:
            scope.skip(
                "attention", "no softmax attention was seen, and no single other mixer is known by its parameters"
            )
        return
    call = layer.call_of(layer.scores[0].owner)
    if call is None:
        scope.skip("attention", "the softmax attention runs in the layer itself")
        return
    try:
        label_attention(Probe(call, LENGTH, subject.norms), scope, read_fields(subject.config))
    except ProbeError as error:
        scope.skip("attention", str(error))
    if kinds and "attention.kind" in scope.values:
        scope.label("attention.kind", scope.values["attention.kind"], *kinds)


def _label_sharing(subject: Subject, labels: Labels) -> None:
    """Label from which earlier layer a layer takes its keys and values: the first with the very same."""
    keys: list[tuple[int, Tensor]] = []
    if len(stacks_of(subject.layers)) != 1:
        return
    for index, layer in enumerate(subject.layers):
        if not layer.scores:
            continue
        key = layer.scores[0].key
        same = [other for other, seen in keys if seen.shape == key.shape and torch.equal(seen, key)]
        labels.layers[layer.path].label("attention.kv_shared_from", same[0] if same else None)
        keys.append((index, key))


def _label_model(subject: Subject, labels: Labels) -> None:
    scope = labels.model
    inside = {module for layer in subject.layers for module in layer.names}
    for path, form in subject.forms.items():
        if subject.model.get_submodule(path) not in inside:
            label_norm(scope, path, form, subject.sources.get(path, ""), halved=path in subject.halved)
    if len(stacks_of(subject.layers)) != 1:
        scope.skip("model", "the layers are in several lists, or in none")
        return
    scope.label("layers", len(subject.layers))
    vocabulary = Vocabulary(subject.model, subject.tokens, subject.record, subject.norms)
    positions = vocabulary.label_embedding(subject.layers[0], scope)
    vocabulary.label_head(scope)
    for layer in labels.layers.values():
        if layer.values.get("position.kind") != "none":
            continue
        if positions:
            layer.label("position.kind", positions, "none")
        elif "embedding.positions" not in scope.values:
            del layer.values["position.kind"]
            layer.skip("position.kind", "whether the embedding adds positions is not known")
    kinds = [layer.values.get("attention.kind") for layer in labels.layers.values()]
    if any(_convolves_outside_mixers(layer) for layer in subject.layers):
        scope.skip("state", "a convolution outside the known mixers may keep a state of its own")
    elif all(kind in STATE for kind in kinds):
        every = {kind for layer in labels.layers.values() for kind in layer.accepts("attention.kind")}
        scope.label("state", sorted({state for kind in every for state in STATE[kind]}))
    else:
        scope.skip("state", "a layer's mixer has no label")

"""Facts as lines: what an engineer wants to read of them, with the layers that they hold for."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping

from kunport_codegen.graph import Location

from kunport.description.findings import Finding
from kunport.variants.catalogue import catalogue
from kunport.variants.compare import is_size
from kunport.variants.fact import Fact, ModelFacts
from kunport.variants.known import known_model
from kunport.variants.whole.unexplained import KEY as UNEXPLAINED
from kunport.variants.whole.unexplained import PROBLEM, SEPARATOR

_NORM = re.compile(r"norm\[(.*)\]\.(\w+)$")
_TITLES = {"mlp": "MLP", "whole": "model"}
# Factors that are not said where they are the usual ones.
_FACTORS = ("attention.scale", "residual.multiplier", "embedding.scale", "head.scale", "router.scale")
# What makes the form of a norm, and what of it counts against that of a Llama's.
_FORM = ("kind", "weight", "offset", "bias", "cast")
_SHOWN = 8  # parts of a reason
_NAMES = {"rms": "RMS norm", "layer": "layer norm", "l2": "L2 norm"}


def findings(facts: ModelFacts) -> dict[str, list[Finding]]:
    """Title -> what is said under it, in the order of the catalogue."""
    found: dict[str, list[Finding]] = {_title(entry.folder): [] for entry in catalogue()}
    for kind in facts.kinds:
        main = kind.stack == facts.kinds[0].stack
        for folder, text, where, usual, key in _said(kind.facts, known_model("llama").layer(0)):
            text = text if main else f"{kind.stack}: {text}"
            layers = kind.layers if main else (None,)
            found[_title(folder)].extend(Finding(text, where, layer, usual, key) for layer in layers)
    for folder, text, where, usual, key in _said(facts.model, known_model("llama").model):
        found[_title(folder)].append(Finding(text, where, None, usual, key))
    return found


Said = Iterator[tuple[str, str, Location, bool, str]]


def _title(folder: str) -> str:
    return _TITLES.get(folder, folder)


def _said(facts: Mapping[str, Fact], llama: Mapping[str, Fact]) -> Said:
    """Each line as its folder, text and place, whether a Llama does the same, and its first key."""
    yield from _norms(facts, inside="residual.order" in facts)
    unknown = _unknown(facts)
    for entry in catalogue():
        known = {key: facts[key] for key in entry.variant.keys if key in facts}
        told = {key: fact for key, fact in known.items() if not fact.reason}
        for reason in dict.fromkeys(fact.reason for fact in known.values() if fact.reason):
            if (keys := unknown.pop((entry.folder, reason), None)) is not None:
                fact = facts[keys[0]]
                yield entry.folder, _not_known(keys, _reason(fact)), fact.where, False, keys[0]
        shown = [key for key, fact in told.items() if _says_something(key, fact, facts, llama)]
        together = [key for key in shown if is_size(key)]
        if together:
            text = ", ".join(f"{_label(key)} {_show(told[key])}" for key in together)
            usual = all(_same(key, told[key], facts, llama) for key in together)
            yield entry.folder, text, told[together[0]].where, usual, together[0]
        for key in shown:
            if key not in together:
                usual = _same(key, told[key], facts, llama)
                yield entry.folder, f"{_label(key)}: {_show(told[key])}", told[key].where, usual, key


def _unknown(facts: Mapping[str, Fact]) -> dict[tuple[str, str], list[str]]:
    """Folder and reason -> the keys that cannot be told for it: a reason is said once under each title."""
    found: dict[tuple[str, str], list[str]] = {}
    for entry in catalogue():
        for key in entry.variant.keys:
            if key in facts and facts[key].reason:
                found.setdefault((entry.folder, facts[key].reason), []).append(key)
    return found


def _not_known(keys: list[str], reason: str) -> str:
    if keys == [UNEXPLAINED]:
        return f"not explained by any line here: {_cut(reason.removeprefix(PROBLEM))}"
    return f"{', '.join(map(_label, keys))}: not known, {_cut(reason)}"


def _reason(fact: Fact) -> str:
    """Why a fact is not known, without the place that its line names already."""
    return fact.reason.removeprefix(f"{fact.where}: ")


def _cut(reason: str) -> str:
    """A reason as far as a reader of text wants it; the facts as data have it whole."""
    parts = reason.split(SEPARATOR)
    more = f"{SEPARATOR}and {len(parts) - _SHOWN} more" if len(parts) > _SHOWN else ""
    return SEPARATOR.join(parts[:_SHOWN]) + more


def _norms(facts: Mapping[str, Fact], inside: bool) -> Said:
    """A line for each form of norm, with the names of those that have it.

    Inside of layers, a Llama has none in a part of the layer.
    """
    first = known_model("llama").layer(0)
    llama = {key: first[f"norm[input_layernorm].{key}"].value for key in _FORM}
    forms: dict[str, dict[str, Fact]] = {}
    for key, fact in facts.items():
        if (found := _NORM.match(key)) is not None:
            forms.setdefault(found[1], {})[found[2]] = fact
    names: dict[str, list[str]] = {}
    for name, form in forms.items():
        names.setdefault(_form(form), []).append(name)
    for text, own in names.items():
        form = forms[own[0]]
        deeper = inside and any("." in name for name in own)
        usual = not deeper and all(form[key].value == value for key, value in llama.items())
        yield "norm", f"{', '.join(own)}: {text}", form["kind"].where, usual, f"norm[{own[0]}].kind"


def _form(form: Mapping[str, Fact]) -> str:
    """A norm in words."""
    if form["kind"].reason:
        return f"not known, {_reason(form['kind'])}"
    value = {key: fact.value for key, fact in form.items()}
    epsilon = f", epsilon {_show(form['epsilon'])}" if "epsilon" in form else ""
    parts = [f"{_NAMES.get(value['kind'], value['kind'])} of {value['size']}{epsilon}"]
    if form["epsilon_source"].value in ("literal", "class default", "torch default"):
        parts.append(str(value["epsilon_source"]))
    if not value["weight"]:
        parts.append("without a weight")
    elif value["offset"]:
        parts.append(f"weight + {_plain(value['offset'])}")
    if value["bias"]:
        parts.append("with a bias")
    if value["weight"] and value["kind"] == "rms":
        parts.extend(
            {"after_weight": ["weight applied in float32"], "none": ["in the model's dtype"]}.get(value["cast"], [])
        )
    return ", ".join(parts)


def _says_something(key: str, fact: Fact, facts: Mapping[str, Fact], llama: Mapping[str, Fact]) -> bool:
    """Whether a fact is worth a line: it is there, and if it is a factor, it is not the usual one."""
    if key == "attention.scale" and not set(fact.fields) <= set(facts["attention.head_dim"].fields):
        return True  # another field decides it, even where it comes to the usual
    if key in _FACTORS:
        return not _same(key, fact, facts, llama)
    return bool(fact.value) or (key in llama and llama[key].value != fact.value)


def _same(key: str, fact: Fact, facts: Mapping[str, Fact], llama: Mapping[str, Fact]) -> bool:
    """Whether a Llama does the same; sizes and settings are nobody's own."""
    if key == "attention.scale":
        return math.isclose(fact.value, float(facts["attention.head_dim"].value) ** -0.5)
    if key in _FACTORS:
        return bool(fact.value == 1.0)
    if key in ("attention.window", "head.tied") or not is_size(key):
        return key in llama and bool(llama[key].value == fact.value)
    return not key.startswith(("router.", "experts."))


def _label(key: str) -> str:
    return key.rpartition(".")[2].replace("_", " ")


def _show(fact: Fact) -> str:
    """A value and the configuration fields that it comes from, without parts of fields that are named whole."""
    whole = [each for each in fact.fields if not (each.endswith("]") and each.partition("[")[0] in fact.fields)]
    fields = ", ".join(f"config.{field}" for field in whole)
    return f"{_plain(fact.value)} ({fields})" if fields else _plain(fact.value)


def _plain(value: object) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "none"}[value]
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value)

"""Normalisations: their form, and where they stand."""

from __future__ import annotations

from collections.abc import Iterator

from kunport_codegen.expression import unwrap
from kunport_codegen.facts import Norm

from kunport.description.findings import Finding
from kunport.description.view import View, show

_NAMES = {"rms": "RMS norm", "layer": "layer norm", "l2": "L2 norm"}


def describe(view: View) -> Iterator[Finding]:
    """One finding for each form of norm and layer, which names every place that has the form."""
    places: dict[tuple[str, int | None], list[str]] = {}
    first: dict[tuple[str, int | None], Norm] = {}
    for norm in view.facts.norms:
        key = _form(norm), view.layer(norm.frame)
        first.setdefault(key, norm)
        names = places.setdefault(key, [])
        if (place := view.place(norm.frame)) not in names:
            names.append(place)
    for (form, layer), norm in first.items():
        yield Finding(f"{', '.join(places[form, layer])}: {form}", norm.where, layer, _usual(norm))


def _form(norm: Norm) -> str:
    parts = [f"{_NAMES.get(norm.kind, norm.kind)}, epsilon {show(norm.epsilon)}"]
    if norm.per_head:
        parts.append(f"over each head's {show(norm.size)} elements")
    if norm.weight is None:
        parts.append("without a weight")
    elif norm.offset:
        parts.append(f"weight + {show(norm.offset)}")
    if norm.bias is not None:
        parts.append("with a bias")
    if norm.weight is not None and norm.kind == "rms":
        if norm.cast == "after_weight":
            parts.append("weight applied in float32")
        elif norm.cast == "none":
            parts.append("computed in the model's dtype")
    return ", ".join(parts)


def _usual(norm: Norm) -> bool:
    plain = norm.weight is not None and norm.bias is None and not norm.per_head and unwrap(norm.offset) == 0
    return norm.kind == "rms" and norm.cast == "before_weight" and plain

"""What is said about a model: findings per layer, merged into one line where layers agree."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kunport_codegen.graph import Location


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that the model does.

    Attributes:
        text: the thing, with values and the configuration fields that they come from.
        where: source line that does it.
        layer: index of the layer, None outside of layers.
        usual: a Llama does the same.
        key: the fact's key, the first one where the text says several; "" for what is no fact.
    """

    text: str
    where: Location
    layer: int | None = None
    usual: bool = True
    key: str = ""


@dataclass(frozen=True, slots=True)
class Line:
    """A finding and all layers that it holds for; none for what lies outside of layers."""

    text: str
    where: Location
    layers: tuple[int, ...]
    usual: bool
    key: str = ""


def merge(findings: Iterable[Finding]) -> list[Line]:
    """Findings that say the same about the same source line as one, in order of their first appearance.

    What is said twice about a layer (of its queries and of its keys) is said of the first line only.
    """
    layers: dict[tuple[str, Location, bool, str], list[int]] = {}
    said = set[tuple[str, int | None]]()
    for finding in findings:
        if (finding.text, finding.layer) in said:
            continue
        said.add((finding.text, finding.layer))
        merged = layers.setdefault((finding.text, finding.where, finding.usual, finding.key), [])
        if finding.layer is not None and finding.layer not in merged:
            merged.append(finding.layer)
    return [Line(text, where, tuple(sorted(each)), usual, key) for (text, where, usual, key), each in layers.items()]


def name_layers(layers: Sequence[int], depth: int) -> str:
    """How an engineer says which of ``depth`` layers: ``layers 0-3``, ``every 2nd layer from 1``; "" for none.

    >>> name_layers([1, 3, 5], 6)
    'every 2nd layer from 1'
    >>> name_layers([0, 1, 2, 3, 4, 6, 7, 8, 9, 10], 12)
    'all layers but every 6th from 5'
    """
    if not layers:
        return ""
    if len(layers) == 1:
        return f"layer {layers[0]}"
    if list(layers) == list(range(layers[0], layers[-1] + 1)):
        return f"layers {layers[0]}-{layers[-1]}"
    if step := _step(layers, depth):
        return f"every {_ordinal(step)} layer from {layers[0]}"
    others = [layer for layer in range(depth) if layer not in layers]
    if step := _step(others, depth):
        return f"all layers but every {_ordinal(step)} from {others[0]}"
    return f"layers {', '.join(_ranges(layers))}"


def _step(layers: Sequence[int], depth: int) -> int | None:
    """The step of a progression that begins in the first period and runs to the last layer."""
    if len(layers) < 2:
        return None
    step = layers[1] - layers[0]
    return step if layers[0] < step and list(layers) == list(range(layers[0], depth, step)) else None


def _ordinal(number: int) -> str:
    suffix = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{suffix}"


def _ranges(layers: Sequence[int]) -> list[str]:
    ranges: list[list[int]] = []
    for layer in layers:
        if ranges and ranges[-1][-1] == layer - 1:
            ranges[-1].append(layer)
        else:
            ranges.append([layer])
    return [f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in ranges]

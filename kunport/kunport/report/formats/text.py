"""For the terminal: groups of lines, ``*`` where the model differs from a Llama, then the verdict and the weights."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from textwrap import wrap

from kunport.description import Description, Line, name_layers
from kunport.report.formats.answer import ORDER, Answer, verdict
from kunport.report.weights import weight_lines
from kunport.text import parameters
from kunport.variants.compare import Held, is_size
from kunport.variants.known import Nearest
from kunport.variants.verdict.judge import AS_IS
from kunport.variants.whole.unexplained import KEY as UNEXPLAINED

_REASONS = 8  # as many reasons are printed; the other formats have all
_WIDTH = 88  # columns of a line's text before its place in the source


def render(answer: Answer) -> str:
    """The answer as plain text. A source file that lies in other folders is named with them once, at the top."""
    lines = list(_lines(answer))
    names = sorted(answer.description.sources)
    same = Counter(name.rpartition("/")[2] for name in names)
    short = {name: base for name in names if same[base := name.rpartition("/")[2]] == 1 and base != name}
    place = re.compile(f"(?<![\\w/.-])({'|'.join(map(re.escape, short))})(?=:[0-9])") if short else None
    named = dict.fromkeys(found for line in lines for found in (place.findall(line) if place else ()))
    if place is not None:
        lines = [place.sub(lambda found: short[found[1]], line) for line in lines]
    head, *rest = lines
    return "\n".join([head, *(f"    {name}" for name in named), *rest]) + "\n"


def _lines(answer: Answer) -> Iterator[str]:
    description = answer.description
    size = f"{description.layers} layers, {parameters(description.parameters)} parameters"
    yield f"{description.architecture} ({description.model_type}): {size}"
    for title, lines in description.groups.items():
        yield ""
        yield f"{title[:1].upper()}{title[1:]}"
        for line in lines:
            yield from _rows(line, name_layers(line.layers, description.layers))
    if description.notes:
        yield from ("", "Notes")
        yield from _indented(description.notes)
    if answer.weights is not None:
        yield from ("", "Weights")
        yield from _indented(weight_lines(answer.weights))
    if description.runs is not None:
        yield from ("", "Engine", f"    {description.runs.answer}")
        yield from _indented(description.runs.reasons[:_REASONS])
        if description.runs.answer != AS_IS and description.runs.uses:
            yield "    layers of the engine, and what of the source each runs:"
            yield from _indented(f"  {use.layer}: {', '.join(use.operators)}" for use in description.runs.uses)
    if description.nearest is not None:
        yield from ("", "Nearest", *_indented(nearest_lines(description.nearest)))
    yield ""
    if any(line.key == "residual.order" for lines in description.groups.values() for line in lines):
        yield f"{ORDER} `kunport analyze --list-variants` says what the other lines mean."
    yield from verdict_lines(description)


def nearest_lines(nearest: Nearest) -> Iterator[str]:
    """The nearest known architecture, and the keys in which the model differs, sizes and settings aside."""
    yield f"most like {nearest.architecture} ({nearest.model_type})"
    for each in nearest.differences:
        if not is_size(each.key) and each.key != UNEXPLAINED:
            ours, theirs = (", ".join(map(_held, side)) for side in (each.left, each.right))
            yield f"{each.key}: {ours} here, {theirs} there"


def _held(held: Held) -> str:
    if held.fact is None:
        return "absent"
    if held.fact.reason:
        return "not known"
    value = held.fact.value
    if value is None or value == []:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return " ".join(value) if isinstance(value, list) else str(value)


def verdict_lines(description: Description) -> Iterator[str]:
    """The verdict, and what stands in the way of an adapter, with file, line and reason."""
    if description.understood:
        yield f"{verdict(description)} `*` marks what a Llama does not do."
    else:
        yield verdict(description)
        yield from _indented(map(str, description.unknowns))


def _indented(lines: Iterable[str]) -> Iterator[str]:
    return (f"    {line}" for line in lines)


def _rows(line: Line, layers: str) -> Iterator[str]:
    text = f"{line.text}  [{layers}]" if layers else line.text
    first, *rest = wrap(text, _WIDTH, break_long_words=False, break_on_hyphens=False) or [""]
    yield f"  {' ' if line.usual else '*'} {first:<{_WIDTH}}  {line.where}"
    yield from (f"      {each}" for each in rest)

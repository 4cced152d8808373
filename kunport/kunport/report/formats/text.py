"""For the terminal: groups of lines, ``*`` where the model differs from a Llama, then the verdict and the weights."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kunport.description import Description, Line, name_layers
from kunport.report.formats.answer import Answer, verdict
from kunport.report.weights import weight_lines
from kunport.text import parameters

_WIDTH = 88  # columns of a line's text before its place in the source


def render(answer: Answer) -> str:
    """The answer as plain text."""
    return "\n".join(_lines(answer)) + "\n"


def _lines(answer: Answer) -> Iterator[str]:
    description = answer.description
    size = f"{description.layers} layers, {parameters(description.parameters)} parameters"
    yield f"{description.architecture} ({description.model_type}): {size}"
    for title, lines in description.groups.items():
        yield ""
        yield f"{title[:1].upper()}{title[1:]}"
        for line in lines:
            yield _row(line, name_layers(line.layers, description.layers))
    if description.notes:
        yield from ("", "Notes")
        yield from _indented(description.notes)
    if answer.weights is not None:
        yield from ("", "Weights")
        yield from _indented(weight_lines(answer.weights))
    yield ""
    yield from verdict_lines(description)


def verdict_lines(description: Description) -> Iterator[str]:
    """The verdict, and what stands in the way of an adapter, with file, line and reason."""
    if description.understood:
        yield f"{verdict(description)} `*` marks what a Llama does not do."
    else:
        yield verdict(description)
        yield from _indented(map(str, description.unknowns))


def _indented(lines: Iterable[str]) -> Iterator[str]:
    return (f"    {line}" for line in lines)


def _row(line: Line, layers: str) -> str:
    text = f"{line.text}  [{layers}]" if layers else line.text
    return f"  {' ' if line.usual else '*'} {text:<{_WIDTH}}  {line.where}"

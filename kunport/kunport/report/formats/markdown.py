"""For a pull request or an issue: Markdown (GitHub's) with tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from kunport.description import name_layers
from kunport.report.formats.answer import ORDER, Answer, verdict
from kunport.report.weights import weight_lines
from kunport.text import parameters, visible

_MARKUP = re.compile(r"[\\`*_{}\[\]<>()#+!|~&@$-]")


def render(answer: Answer) -> str:
    """The answer as Markdown. Foreign strings are escaped, so that they are neither markup nor mentions."""
    return "\n".join(_lines(answer)) + "\n"


def _lines(answer: Answer) -> Iterator[str]:
    description = answer.description
    yield f"# {_text(description.architecture)} ({_text(description.model_type)})"
    yield ""
    yield f"{description.layers} layers, {parameters(description.parameters)} parameters. {_text(verdict(description))}"
    if description.unknowns:
        yield ""
        yield from (f"- {_text(each.reason)} ({_text(each.where)})" for each in description.unknowns)
    for title, lines in description.groups.items():
        rows = (
            ("★" if not line.usual else "", line.text, name_layers(line.layers, description.layers), line.where)
            for line in lines
        )
        yield from _table(title, ("", "what", "layers", "source"), rows)
    for title, texts in (("notes", description.notes), ("weights", _weights(answer))):
        if texts:
            yield from ("", f"## {title[:1].upper()}{title[1:]}", "")
            yield from (f"- {_text(text)}" for text in texts)
    yield from ("", f"★ marks what a Llama does not do. {ORDER}")


def _weights(answer: Answer) -> list[str]:
    return [] if answer.weights is None else weight_lines(answer.weights)


def _table(title: str, columns: tuple[str, ...], rows: Iterable[tuple[object, ...]]) -> Iterator[str]:
    yield from ("", f"## {title[:1].upper()}{title[1:]}", "")
    yield f"| {' | '.join(columns)} |"
    yield f"|{'---|' * len(columns)}"
    for row in rows:
        yield f"| {' | '.join(map(_text, row))} |"


def _text(value: object) -> str:
    """A string as the text that it is: one line, no markup."""
    return _MARKUP.sub(lambda found: f"\\{found[0]}", visible(value)).replace("\\<", "&lt;").replace("\\@", "&#64;")

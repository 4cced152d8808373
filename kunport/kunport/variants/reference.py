"""The reference pages of the variants, from their docstrings, keys and examples."""

from __future__ import annotations

import json
from collections.abc import Iterator

from kunport.variants.catalogue import Entry, catalogue
from kunport.variants.variant import ABSENT, Example

_INTRODUCTION = """# Variants

What `kunport analyze` says of a model, key by key. Each fact has a *value*, a *status* and *where*, the file and line
that decides it. The status is `proved` where the source alone fixes the value, `depends` where fields of the
configuration do, by themselves or by a decision on them (`fields` names them), and `opaque` where the analysis cannot
tell (`reason` says why). A key that does not apply to a layer is not there; what a layer could have and does not is
`null`, `false` or `[]`.

A field counts where another setting of it can change the value. One that only decides whether the key is there need not
be named. Fields from which the configuration's own class computes such a field are named with it: the head dimension of
a Llama depends on `head_dim`, and on `hidden_size` and `num_attention_heads` where `head_dim` is not given. A number
that a field picks from others (`0.5 if config.flag else 1.0`) depends on that field, as do a class and what it makes.
Where layers of a stack differ in a key and nothing tells by which field, the fields that the value of some
layer comes from count for all of them: a window that every other layer has depends on its length in each, `null`
included.

This page is written by `python -m kunport.variants`; every variant is one file in `kunport/kunport/variants`, and its
examples are run as tests.
"""


def page() -> str:
    """The whole page as Markdown."""
    parts = [_INTRODUCTION]
    folder = ""
    for entry in catalogue():
        if entry.folder != folder:
            folder = entry.folder
            parts.append(f"## {folder}\n")
        parts.append("\n".join(_section(entry)))
    return "\n".join(parts)


def listing() -> str:
    """The catalogue as lines: each key with what its value is, by folder."""
    width = max(len(key) for entry in catalogue() for key in entry.variant.keys)
    lines: list[str] = []
    folder = ""
    for entry in catalogue():
        if entry.folder != folder:
            folder = entry.folder
            lines.extend(("", folder) if lines else (folder,))
        lines.extend(f"  {key:<{width}}  {meaning}" for key, meaning in entry.variant.keys.items())
    return "\n".join(lines)


def as_data() -> list[dict[str, object]]:
    """The catalogue as plain data: key, value, scope, title and documentation."""
    return [
        {"key": key, "value": meaning, "scope": _scope(entry), "title": _title(entry), "documentation": entry.doc}
        for entry in catalogue()
        for key, meaning in entry.variant.keys.items()
    ]


def _scope(entry: Entry) -> str:
    both = {"norm": "model or layer", "everywhere": "model or layer", "model": "model"}
    return both.get(entry.variant.scope, "layer")


def _title(entry: Entry) -> str:
    return entry.doc.partition("\n")[0]


def _section(entry: Entry) -> Iterator[str]:
    title, _, rest = entry.doc.partition("\n")
    yield f"### {entry.folder}: {entry.name.replace('_', ' ')}\n"
    yield title
    if rest.strip():
        yield f"\n{rest.strip()}"
    yield "\n| key | value |\n|---|---|"
    for key, meaning in entry.variant.keys.items():
        yield f"| `{key}` | {meaning} |"
    yield "\nFor example:\n"
    for example in entry.variant.examples:
        yield f"- {_example(entry, example)}"
    yield ""


def _example(entry: Entry, example: Example) -> str:
    key = example.key or next(iter(entry.variant.keys))
    where = f", layer {example.layer}" if entry.variant.scope != "model" and example.layer else ""
    config = ", ".join(f"{name}={json.dumps(value)}" for name, value in example.config.items())
    value = "is not there" if example.value == ABSENT else f"is `{json.dumps(example.value)}`"
    fields = f", from {', '.join(f'`{field}`' for field in example.fields)}" if example.fields else ""
    return f"`{example.model}`{where}{f' with {config}' if config else ''}: `{key}` {value}{fields}"

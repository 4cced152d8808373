"""Rows kept in the user's cache folder: one file each, with a seal, replaced in one step.

A damaged, foreign or unreadable file is the same as none, and a folder that cannot be written keeps nothing.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from dataclasses import asdict
from pathlib import Path

from kunport.survey.digests import digest, version
from kunport.survey.row import Row

VARIABLE = "KUNPORT_CACHE"


def cache_folder() -> Path:
    """``KUNPORT_CACHE``, else ``kunport`` in the user's cache folder (``XDG_CACHE_HOME`` or ``~/.cache``)."""
    if place := os.environ.get(VARIABLE):
        return Path(place)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "kunport"


def recall(model: str) -> Row | None:
    """The row that was kept for a model, if everything that it was read from is still the same."""
    try:
        seal, _, text = _place(model).read_text(encoding="utf-8").partition("\n")
        if seal != _seal(text):
            return None
        row = Row(**json.loads(text))
    except (OSError, ValueError, TypeError, RecursionError):
        return None
    same = row.model == model and all(digest(Path(path)) == value for path, value in row.sources.items())
    return row if same else None


def keep(row: Row) -> None:
    """Keep a row for `recall`. One without any source is not kept: nothing would say when it is out of date."""
    if not row.sources:
        return
    text = json.dumps(asdict(row))
    place = _place(row.model)
    with contextlib.suppress(OSError):
        place.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=place.parent)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(f"{_seal(text)}\n{text}")
        os.replace(name, place)


def _place(model: str) -> Path:
    path = Path(model)
    named = str(path.resolve()) if path.exists() else model
    key = hashlib.sha256(f"{version()}\0{model}\0{named}".encode(errors="surrogatepass")).hexdigest()
    return cache_folder() / "rows" / key[:2] / key


def _seal(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()

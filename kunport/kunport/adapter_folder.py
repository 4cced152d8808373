"""Puts a generated adapter on disk, whole, and never over what a user has written."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kunport.errors import KunportError
from kunport.folders import replaced_folder

if TYPE_CHECKING:
    from kunport.analysis import Analysis

MANIFEST = "adapter.json"
_REPORTS = ("report.html", "report.json")  # evidence for the adapter beside them, which goes when it goes
_BY_PRODUCTS = ("__pycache__", ".pytest_cache")  # folders that Python and its tests leave behind


def folder_for(analysis: Analysis, output: Path) -> Path:
    """Where the adapter of a model goes: ``output/MODEL_TYPE``, or its architecture where it names no model type.

    Raises:
        KunportError: the model type is not the plain name of a folder.
    """
    name = analysis.model_type or analysis.architecture
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", name):
        raise KunportError(
            f"The model type {name!r} is not a name that a folder can have.", "Correct model_type in config.json."
        )
    return output / name


def write_adapter(files: Mapping[str, str], folder: Path) -> Path:
    """Write the files of an adapter to ``folder``, in place of an adapter that stands there unedited.

    Args:
        files: relative file name -> text; ``adapter.json`` among them, whose ``files`` gives the SHA-256 of each other.
            It gets one field more, ``digest``: its own, by which an edit of the manifest is seen.
        folder: the adapter's own.

    Raises:
        KunportError: the folder holds something that kunport did not write, or cannot be written.
    """
    check_replaceable(folder)
    with replaced_folder(folder) as new:
        for name, text in files.items():
            path = new / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(_sealed(text) if name == MANIFEST else text, encoding="utf-8")
    return folder


def holds_adapter(folder: Path) -> bool:
    return (folder / MANIFEST).exists()


def check_replaceable(folder: Path) -> None:
    """Raise unless all that ``folder`` holds is as kunport wrote it; a folder that is not there holds nothing."""
    if folder.exists() and not folder.is_dir():
        raise KunportError(f"{folder} is a file.", "Choose another place with --output.")
    changed = list(_changed(folder))
    if changed:
        what = "an adapter that was edited" if holds_adapter(folder) else "files that kunport did not write"
        names = ", ".join(changed[:3]) + (", ..." if len(changed) > 3 else "")
        raise KunportError(f"{folder} holds {what} ({names}).", "Move it away, or choose another place with --output.")


def _changed(folder: Path) -> Iterator[str]:
    """Files of the folder that are not as they were generated."""
    generated = _digests(folder / MANIFEST) if holds_adapter(folder) else {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if not path.is_file() or name in _REPORTS or any(part in _BY_PRODUCTS for part in path.parts):
            continue
        if name == MANIFEST:
            if not generated:
                yield name
        elif generated.get(name) != hashlib.sha256(path.read_bytes()).hexdigest():
            yield name


def _digests(manifest: Path) -> dict[str, str]:
    """File name -> SHA-256 as generated; nothing where the manifest was edited."""
    try:
        data = json.loads(manifest.read_text(encoding="utf-8"))
        return dict(data["files"]) if data.pop("digest") == _digest(data) else {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _sealed(manifest: str) -> str:
    data = json.loads(manifest)
    return json.dumps(data | {"digest": _digest(data)}, indent=2, ensure_ascii=False) + "\n"


def _digest(data: dict[str, Any]) -> str:
    """SHA-256 of a manifest's content, its ``digest`` apart, however it is laid out."""
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()

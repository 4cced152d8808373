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
GENERATED = ".generated"  # the files as they were generated: what edits are told apart by
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
        write_files(files, new)
    return folder


def write_files(files: Mapping[str, str], folder: Path) -> None:
    """Write an adapter's files into a folder, and beside them as what was generated."""
    for name, text in files.items():
        places = [folder / name, folder / GENERATED / name] if name != MANIFEST else [folder / name]
        for path in places:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(_sealed(text) if name == MANIFEST else text, encoding="utf-8")


def removed_files(folder: Path) -> list[str]:
    """Files that were generated and are no longer there: not edits, where an adapter is replaced."""
    return sorted(name for name in _digests(folder / MANIFEST) if not (folder / name).exists())


def generated_texts(folder: Path) -> dict[str, str] | None:
    """File name -> text as generated, the manifest apart; None where a text is missing or is not what was generated."""
    texts = {}
    for name, digest in _digests(folder / MANIFEST).items():
        try:
            data = (folder / GENERATED / name).read_bytes()
        except OSError:
            return None
        if hashlib.sha256(data).hexdigest() != digest:
            return None
        texts[name] = data.decode("utf-8")
    return texts or None


def holds_adapter(folder: Path) -> bool:
    return (folder / MANIFEST).exists()


def check_replaceable(folder: Path) -> None:
    """Raise unless all that ``folder`` holds is as kunport wrote it; a folder that is not there holds nothing."""
    if folder.exists() and not folder.is_dir():
        raise KunportError(f"{folder} is a file.", "Choose another place with --output.")
    changed = list(changed_files(folder))
    if changed:
        what = "an adapter that was edited" if holds_adapter(folder) else "files that kunport did not write"
        names = ", ".join(changed[:3]) + (", ..." if len(changed) > 3 else "")
        merge = " merge the edits with --merge," if holds_adapter(folder) else ""
        raise KunportError(
            f"{folder} holds {what} ({names}).", f"Move it away,{merge} or choose another place with --output."
        )


def lasting_files(folder: Path) -> Iterator[tuple[str, Path]]:
    """The files of a folder by name, without those that go or come with an adapter: reports, what was generated."""
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        if path.is_file() and name.as_posix() not in _REPORTS and not {GENERATED, *_BY_PRODUCTS} & set(name.parts):
            yield name.as_posix(), path


def changed_files(folder: Path) -> Iterator[str]:
    """Files of the folder that are not as they were generated."""
    generated = _digests(folder / MANIFEST) if holds_adapter(folder) else {}
    for name, path in lasting_files(folder):
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

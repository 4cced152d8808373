"""Puts a generated adapter on disk, whole, and never over a file that the user has edited."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from kunport.errors import KunportError
from kunport.folders import replaced_folder

MANIFEST = "adapter.json"


def write_adapter(files: Mapping[str, str], folder: Path) -> Path:
    """Write the files of an adapter to ``folder``, in place of an adapter that stands there unedited.

    Args:
        files: relative file name -> text; ``adapter.json`` among them, whose ``files`` gives the SHA-256 of each other.

    Raises:
        KunportError: the folder holds an edited adapter or something else, or cannot be written.
    """
    check_unedited(folder)
    with replaced_folder(folder) as new:
        for name, text in files.items():
            path = new / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    return folder


def check_unedited(folder: Path) -> None:
    """Raise unless ``folder`` is missing, empty, or an adapter whose files are as they were generated."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise KunportError(f"{folder} is a file.", "Choose another place with --output.")
    if not any(folder.iterdir()):
        return
    generated = _generated_digests(folder)
    edited = [name for name, digest in generated.items() if _digest(folder / name) not in (digest, None)]
    if edited:
        raise KunportError(
            f"{folder} holds an adapter that was edited ({', '.join(sorted(edited))}).",
            "Move it away, or choose another place with --output.",
        )


def _generated_digests(folder: Path) -> dict[str, str]:
    """File name -> SHA-256 at generation, from the manifest."""
    try:
        digests = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["files"]
        return {str(name): str(digest) for name, digest in digests.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise KunportError(
            f"{folder} is not empty and holds no adapter that kunport generated.",
            "Choose another place with --output, or empty it.",
        ) from None


def _digest(file: Path) -> str | None:
    """SHA-256 of a file's bytes, None where it is gone: a deleted file has no edit to lose."""
    return hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else None

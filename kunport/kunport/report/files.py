"""Reports on disk: each file appears complete or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from kunport.errors import KunportError
from kunport.report.document import as_json

if TYPE_CHECKING:
    from kunport.description import Description
    from kunport.validation.report import Report

PAGE, DATA = "report.html", "report.json"


def write_report(folder: Path, report: Report | None, description: Description | None = None) -> tuple[Path, Path]:
    """Write ``report.html`` and ``report.json`` into a folder, in place of older ones; their paths.

    Raises:
        KunportError: the folder cannot be written.
    """
    from kunport.report.page import render_page

    page, data = render_page(report, description), as_json(report, description)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        replace(folder / PAGE, page)
        replace(folder / DATA, data)
    except OSError as error:
        reason = error.strerror or str(error)
        raise KunportError(f"The report cannot be written to {folder}: {reason}.", "Choose another folder.") from error
    return folder / PAGE, folder / DATA


def write_document(path: Path, document: str) -> None:
    """Write one file, in place of an older one, whole or not at all.

    Raises:
        KunportError: it cannot be written.
    """
    if path.is_dir():
        raise KunportError(f"{path} is a folder.", "Name a file with --output.")
    try:
        replace(path, document)
    except OSError as error:
        reason = error.strerror or str(error)
        raise KunportError(f"Cannot write {path}: {reason}.", "Choose another place with --output.") from error


def replace(path: Path, text: str) -> None:
    """Give a file new contents in one step: a reader, or a crash at any moment, finds the old or the new ones."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
            os.fchmod(stream.fileno(), 0o644)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise

"""Which files of a folder hold models."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from kunport.errors import KunportError


def modeling_files(folder: Path) -> tuple[list[Path], int]:
    """Every ``modeling_*.py`` below a folder in order of their paths, and how many other Python files lie there.

    Only its name says of a file that a model begins in it: the others are read where one of these imports them.

    Raises:
        KunportError: the folder is none, or holds no such file.
    """
    if not folder.is_dir():
        raise KunportError(f"There is no folder {folder}.", "Check the path.")
    every = list(_python_files(folder))
    found = [path for path in every if path.name.startswith("modeling_")]
    if not found:
        raise KunportError(
            f"None of {len(every)} Python files below {folder} is named modeling_*.py.", "Name the files themselves."
        )
    return found, len(every) - len(found)


def _python_files(folder: Path) -> Iterator[Path]:
    """Without links that lead out of the folder."""
    root = folder.resolve()
    for place, folders, names in os.walk(folder):  # which follows no links to folders
        folders.sort()
        for path in (Path(place) / name for name in sorted(names) if name.endswith(".py")):
            if path.is_file() and path.resolve().is_relative_to(root):
                yield path

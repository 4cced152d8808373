"""Which files of a folder hold models."""

from __future__ import annotations

import os
from pathlib import Path

from kunport.errors import KunportError


def modeling_files(folder: Path) -> list[Path]:
    """Every ``modeling_*.py`` below a folder, in order of their paths, without links that lead out of the folder.

    Raises:
        KunportError: the folder is none, or holds no such file.
    """
    if not folder.is_dir():
        raise KunportError(f"There is no folder {folder}.", "Check the path.")
    root = folder.resolve()
    found = []
    for place, folders, names in os.walk(folder):  # which follows no links to folders
        folders.sort()
        paths = (Path(place) / name for name in sorted(names) if name.startswith("modeling_") and name.endswith(".py"))
        found += [path for path in paths if path.is_file() and path.resolve().is_relative_to(root)]
    if not found:
        raise KunportError(f"No modeling_*.py lies below {folder}.", "Name the folder of the source.")
    return found

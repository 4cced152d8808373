"""Folders that appear complete or not at all."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kunport.errors import KunportError


@contextmanager
def replaced_folder(folder: Path) -> Iterator[Path]:
    """An empty folder beside ``folder`` to fill, which takes its place when the block ends without an error.

    What stood at ``folder`` before is removed; whether that is allowed is the caller's to decide. An error inside the
    block leaves everything as it was.

    Raises:
        KunportError: the folder cannot be created or written.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    except OSError as error:
        raise unwritable(folder, error) from error
    try:
        new, old = staging / "new", staging / "old"
        new.mkdir()
        yield new
        if folder.exists():
            folder.rename(old)
        try:
            new.rename(folder)
        except OSError:
            if old.exists():
                old.rename(folder)
            raise
    except OSError as error:
        raise unwritable(folder, error) from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def unwritable(folder: Path, error: OSError) -> KunportError:
    reason = error.strerror or str(error)
    return KunportError(f"Cannot write {folder}: {reason}.", "Choose another place with --output.")

"""How large a file of source may be."""

from __future__ import annotations

from pathlib import Path

from kunport.errors import KunportError

LARGEST = 10_000_000  # bytes


def check_file(path: Path) -> None:
    """Refuse a file that is too large to be source.

    Raises:
        KunportError: it is, or it cannot be read.
    """
    try:
        size = path.stat().st_size
    except OSError as error:
        raise KunportError(
            f"{path} cannot be read ({error.strerror}).", "Check the file and its permissions."
        ) from error
    if size > LARGEST:
        raise KunportError(
            f"{path} has {size:,} bytes, more than source has ({LARGEST:,}).",
            "Give the model's own source and configuration.",
        )

"""Digests of files, and of kunport itself."""

from __future__ import annotations

import hashlib
from functools import cache, lru_cache
from pathlib import Path

from kunport.version import VERSION


def digest(path: Path) -> str:
    """SHA-256 of a file's bytes, computed once for as long as the file stays the same; "" where it cannot be read."""
    try:
        status = path.stat()
        return _digest(str(path), status.st_mtime_ns, status.st_size)
    except OSError:
        return ""


@lru_cache(maxsize=4096)
def _digest(path: str, modified: int, size: int) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@cache
def version() -> str:
    """What the result depends on beside the source: versions of kunport and Transformers, and kunport's own files.

    The files count by size and time, so that a changed checkout does not read what an older one kept.
    """
    import kunport_codegen

    import kunport
    from kunport.analysis.library.installed import installation

    seal = hashlib.sha256()
    for package in (kunport, kunport_codegen):
        for path in sorted(Path(str(package.__file__)).parent.rglob("*.py")):
            status = path.stat()
            seal.update(f"{path.name} {status.st_size} {status.st_mtime_ns}\n".encode())
    return f"{VERSION} {installation()} {seal.hexdigest()}"

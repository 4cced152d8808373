"""What a report holds for: versions, digests and the machine."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import platform
import re
from pathlib import Path

_CHUNK = 1 << 24


def digest(folder: Path) -> str:
    """SHA-256 over names and contents of a folder's files, hidden ones and byte code left out."""
    total = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        if path.is_file() and not any(part.startswith(".") or part == "__pycache__" for part in parts):
            total.update("/".join(parts).encode() + b"\0" + _file_digest(path))
    return total.hexdigest()


def _file_digest(path: Path) -> bytes:
    found = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            found.update(chunk)
    return found.digest()


def versions() -> dict[str, str]:
    return {"kunport": importlib.metadata.version("kunport"), "python": platform.python_version()}


def hardware() -> dict[str, str]:
    """The device that validation ran on, its cores and its memory."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    cores = len(os.sched_getaffinity(0))
    return {"device": "CPU", "processor": _processor(), "cores": str(cores), "memory": f"{memory / 2**30:.0f} GiB"}


def _processor() -> str:
    try:
        found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        found = None
    return found[1] if found else platform.machine()

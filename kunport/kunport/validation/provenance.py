"""What a report holds for: versions, digests and the machine."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import platform
import re
from collections.abc import Iterable
from pathlib import Path

_CHUNK = 1 << 24


def folder_digest(folder: Path) -> str:
    """`digest` of all files in a folder, those in folders below and hidden ones left out."""
    names = [path.name for path in folder.iterdir() if path.is_file() and not path.name.startswith(".")]
    return digest(folder, names)


def digest(folder: Path, names: Iterable[str]) -> str:
    """SHA-256 over names and contents of files, in order of their names; those that are not there count as empty."""
    total = hashlib.sha256()
    for name in sorted(set(names)):
        path = folder / name
        total.update(name.encode() + b"\0" + (bytes.fromhex(file_digest(path)) if path.is_file() else b""))
    return total.hexdigest()


def file_digest(path: Path) -> str:
    """SHA-256 of a file's contents, in hexadecimal."""
    found = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            found.update(chunk)
    return found.hexdigest()


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

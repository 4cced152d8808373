"""Keeps the profile of every process of a server in a folder, one file each, for `kunport profile` to read."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from multiprocessing import util
from pathlib import Path
from typing import Any

from kunport_runtime.operators.errors import OperatorError
from kunport_runtime.operators.timing import VARIABLE, Span, Timer, Total, copy_rate


@dataclass(frozen=True, slots=True)
class Profile:
    """What one process left.

    Attributes:
        process: its id.
        totals: of its calls.
        spans: the first of them, one by one.
        device: torch's name of what it ran on.
        copy_rate: bytes a second that a copy reads and writes there, measured when the process ended.
        memory: of each pool by its tag, as the worker's `kunport_memory` tells it; empty where there is none.
    """

    process: int
    totals: list[Total]
    spans: list[Span]
    device: str = "cpu"
    copy_rate: float = 0.0
    memory: list[dict[str, Any]] = field(default_factory=list)


def keep_profile(timer: Timer, folder: Path) -> None:
    """Write the profile when this process ends, if anything was timed."""
    util.Finalize(None, _write_if_used, args=(timer, folder), exitpriority=0)


def _write_if_used(timer: Timer, folder: Path) -> None:
    if timer.totals and not _path(folder).exists():
        write_profile(timer, folder)


def write_profile(timer: Timer, folder: Path, memory: Sequence[dict[str, Any]] = ()) -> Path:
    """Write the profile now, whole or not at all, and say where."""
    timer.settle()
    folder.mkdir(parents=True, exist_ok=True)
    document = {
        "process": os.getpid(),
        "totals": [asdict(each) for each in timer.totals.values()],
        "spans": [asdict(each) for each in timer.spans],
        "device": str(timer.device),
        "copy_rate": copy_rate(timer.device, 1 << (30 if timer.device.type == "cuda" else 26)),
        "memory": list(memory),
    }
    with tempfile.NamedTemporaryFile("w", dir=folder, delete=False, encoding="utf-8") as file:
        json.dump(document, file)
    os.replace(file.name, _path(folder))
    return _path(folder)


def _path(folder: Path) -> Path:
    return folder / f"profile-{os.getpid()}.json"


def read_profiles(folder: Path) -> list[Profile]:
    """The profiles of all processes.

    Raises:
        OperatorError: the folder holds no profile, or a file in it is none.
    """
    found = []
    for path in sorted(folder.glob("profile-*.json")):
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            totals = [Total(**each) for each in document["totals"]]
            spans = [Span(**each) for each in document["spans"]]
            rest = {name: document[name] for name in ("device", "copy_rate", "memory")}
            found.append(Profile(document["process"], totals, spans, **rest))
        except (OSError, ValueError, KeyError, TypeError):
            raise OperatorError(f"{path} is no profile.", "Remove it.") from None
    if not found:
        raise OperatorError(
            f"{folder} holds no profile.", f"Run the server with {VARIABLE}={folder} and end it; then look again."
        )
    return found

"""Tries an implementation before it is trusted: it compiles, and its numbers are those of the reference.

Once for each operator, dtype, device, driver, version and source file; the verdict is kept in
``$KUNPORT_CACHE/probes`` (by default ``~/.cache/kunport/probes``), one file each, written whole or not at all. While
a probe runs the file says so: where a process died in one, the next does not try again.
"""

from __future__ import annotations

import json
import os
import tempfile
from hashlib import sha256
from itertools import islice
from pathlib import Path

import torch

from kunport_runtime.operators.check import check
from kunport_runtime.operators.contract import Contract
from kunport_runtime.operators.device import capturing, fingerprint
from kunport_runtime.operators.implementation import Implementation

VARIABLE = "KUNPORT_CACHE"
_INTERPRETED_CASES = 3  # Triton's interpreter needs seconds for each; `kunport ops check` runs them all


class Probes:
    """What is known of implementations, in memory and on disk.

    Args:
        folder: of the files; None for the environment's.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._known: dict[tuple[str, str, str, torch.device], str] = {}

    @property
    def folder(self) -> Path:
        """Where verdicts are kept."""
        if self._folder is not None:
            return self._folder
        cache = (
            os.environ.get(VARIABLE) or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "kunport"
        )
        return Path(cache) / "probes"

    def loads(self, implementation: Implementation) -> str:
        """Why an implementation cannot be imported; "" where it can."""
        try:
            implementation.load()
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        return ""

    def known(self, implementation: Implementation, dtype: str, device: torch.device) -> str | None:
        """Why an implementation is not to be trusted, "" where it is; None where it was not tried yet."""
        key = (implementation.operator, implementation.provider, dtype, device)
        if key not in self._known:
            if fault := self.loads(implementation):
                return fault
            reason = _read(self._path(_subject(implementation, dtype, device)))
            if reason is None:
                return None
            self._known[key] = reason
        return self._known[key]

    def verdict(self, contract: Contract, implementation: Implementation, dtype: str, device: torch.device) -> str:
        """Why an implementation is not to be trusted; "" where it is. Tries it where that is not known."""
        reason = self.known(implementation, dtype, device)
        if reason is not None:
            return reason
        if capturing(device):
            return "it was not tried before the graph was captured"
        reason = self._try(contract, implementation, dtype, device)
        self._known[implementation.operator, implementation.provider, dtype, device] = reason
        return reason

    def _path(self, subject: dict[str, str]) -> Path:
        return self.folder / f"{sha256(json.dumps(subject, sort_keys=True).encode()).hexdigest()[:32]}.json"

    def _try(self, contract: Contract, implementation: Implementation, dtype: str, device: torch.device) -> str:
        subject = _subject(implementation, dtype, device)
        path = self._path(subject)
        _write(path, {"subject": subject, "state": "running", "process": os.getpid()})
        outcomes = check(contract, implementation, dtype, device)
        tried = (outcome for outcome in outcomes if not outcome.skipped)
        ran = list(islice(tried, _INTERPRETED_CASES) if subject["interpreted"] == "1" else tried)
        faults = [f"{outcome.case}: {outcome.fault}" for outcome in ran if outcome.fault]
        reason = faults[0] if faults else "" if ran else "none of the contract's cases is within its limits"
        error = max((outcome.error for outcome in ran), default=0.0)
        document = {
            "subject": subject,
            "state": "tried",
            "reason": reason,
            "cases": len(ran),
            "error": min(error, 1e30),
        }
        _write(path, document)
        return reason


def _subject(implementation: Implementation, dtype: str, device: torch.device) -> dict[str, str]:
    return fingerprint(device) | {
        "operator": implementation.operator,
        "provider": implementation.provider,
        "dtype": dtype,
        "source": implementation.digest(),
    }


def _read(path: Path) -> str | None:
    """The reason of a verdict on disk; None where there is none, or none that can be read."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if document["state"] == "tried":
            return str(document["reason"])
        return None if _is_running(int(document["process"])) else "a process ended while it was tried"
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _write(path: Path, document: dict[str, object]) -> None:
    """Keep a document; without a place to keep it the probe is repeated by the next process."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False, encoding="utf-8") as file:
            json.dump(document, file, indent=2)
        os.replace(file.name, path)
    except OSError:
        return

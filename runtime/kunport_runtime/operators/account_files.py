"""Keeps the account of every process of a server in a folder, one file each, for `kunport ops account` to read.

``KUNPORT_OPS_ACCOUNT`` names the folder. A process writes its file when it ends, workers of `multiprocessing`
included; one that is killed leaves none.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections import Counter
from dataclasses import asdict
from functools import partial
from multiprocessing import util
from pathlib import Path

from kunport_runtime.operators.accounting import Failure, Ledger, Record
from kunport_runtime.operators.errors import OperatorError

VARIABLE = "KUNPORT_OPS_ACCOUNT"


def keep_account(ledger: Ledger, folder: Path) -> None:
    """Write the account when this process ends, if anything ran; a process that it forks begins one of its own."""
    _write_at_end(ledger, folder)
    util.register_after_fork(ledger, partial(_begin_anew, folder=folder))


def _write_at_end(ledger: Ledger, folder: Path) -> None:
    util.Finalize(None, _write_if_used, args=(ledger, folder), exitpriority=0)


def _begin_anew(ledger: Ledger, folder: Path) -> None:
    ledger.clear()
    _write_at_end(ledger, folder)


def _write_if_used(ledger: Ledger, folder: Path) -> None:
    if ledger.records():
        write_account(ledger, folder)


def write_account(ledger: Ledger, folder: Path) -> Path:
    """Write the account now, whole or not at all, and say where."""
    folder.mkdir(parents=True, exist_ok=True)
    document = {
        "process": os.getpid(),
        "records": [asdict(record) for record in ledger.records()],
        "failures": [asdict(failure) for failure in ledger.failures],
    }
    with tempfile.NamedTemporaryFile("w", dir=folder, delete=False, encoding="utf-8") as file:
        json.dump(document, file, indent=1)
    path = folder / f"process-{os.getpid()}.json"
    os.replace(file.name, path)
    return path


def read_accounts(folder: Path) -> tuple[list[Record], list[Failure]]:
    """The accounts of all processes together: what ran, with the counts added up, and what failed.

    Raises:
        OperatorError: the folder holds no account, or a file in it is none.
    """
    files = sorted(folder.glob("process-*.json"))
    if not files:
        raise OperatorError(
            f"{folder} holds no account.", f"Run the server with {VARIABLE}={folder} and end it; then look again."
        )
    counts: Counter[tuple[str, str, str, tuple[tuple[str, str], ...]]] = Counter()
    failures: dict[Failure, None] = {}
    for path in files:
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            for record in (Record(**each) for each in document["records"]):
                counts[record.layer, record.operator, record.provider, tuple(record.skipped.items())] += record.count
            failures |= dict.fromkeys(Failure(**each) for each in document["failures"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            raise OperatorError(f"{path} is no account.", "Remove it.") from None
    records = [
        Record(layer, operator, provider, count, dict(skipped))
        for (layer, operator, provider, skipped), count in counts.items()
    ]
    return records, list(failures)

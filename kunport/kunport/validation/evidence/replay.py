"""Evidence again: the same validation on the same inputs, and what is not as it was."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kunport.errors import KunportError
from kunport.validation.evidence.folder import (
    ADAPTER,
    CHECKPOINT,
    OUTPUTS,
    Evidence,
    altered,
    read_evidence,
    read_request,
)
from kunport.validation.judge import validate
from kunport.validation.limits import Limits
from kunport.validation.processes.supervisor import OnStage
from kunport.validation.provenance import file_digest, folder_digest
from kunport.validation.report import Report


@dataclass(frozen=True, slots=True)
class Change:
    """Something that is not as it was recorded. ``what`` is its name; ``then`` and ``now`` are in words."""

    what: str
    then: str
    now: str


@dataclass(frozen=True, slots=True)
class Replay:
    """A validation beside the one that was recorded.

    Attributes:
        evidence: what was recorded.
        report: of the run now.
        altered: files of the folder that are not what was written, prompts and adapter among them.
        changes: in the verdict, the checkpoint, versions and hardware.
        outputs: answers of reference or engine that differ by any bit, with how far.
        total: how many answers were compared.
    """

    evidence: Evidence
    report: Report
    altered: list[str]
    changes: list[Change]
    outputs: list[Change]
    total: int

    @property
    def confirmed(self) -> bool:
        """Whether the evidence is as it was written, and what it says holds again: the same verdict."""
        return not self.altered and self.report.verdict == self.evidence.verdict

    @property
    def identical(self) -> bool:
        """Whether every answer is the same to the last bit."""
        return self.confirmed and not self.outputs

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "confirmed": self.confirmed,
            "identical": self.identical,
            "verdict": {"then": self.evidence.verdict, "now": self.report.verdict},
            "altered": self.altered,
            "changes": [asdict(change) for change in self.changes],
            "outputs": {"compared": self.total, "different": [asdict(change) for change in self.outputs]},
        }


def replay(folder: Path, *, checkpoint: Path | None = None, on_stage: OnStage | None = None) -> Replay:
    """Validate what a folder of evidence holds once more, as it was validated then.

    Args:
        folder: what `write_evidence` wrote; nothing in it is changed.
        checkpoint: where the weights are, if the folder has only their digest.
        on_stage: told of each stage, see `kunport.validation.validate`.

    Raises:
        KunportError: the folder is no evidence, or has no weights and none are named.
    """
    evidence = read_evidence(folder)
    changed = altered(folder, evidence)
    source = checkpoint or folder / CHECKPOINT
    if not source.is_dir():
        raise KunportError(f"{folder} has no weights: they were too large.", "Name their folder with --checkpoint.")
    with tempfile.TemporaryDirectory(prefix="kunport-") as name:
        recordings = Path(name) / OUTPUTS
        try:
            report = validate(
                folder / ADAPTER,
                source,
                limits=Limits(**evidence.limits),
                recordings=recordings,
                on_stage=on_stage,
                **read_request(folder),
            )
        except (TypeError, ValueError, OSError) as error:
            raise KunportError(f"{folder} cannot be replayed: {error}.", "Record the evidence again.") from error
        outputs = list(_differences(folder, recordings, evidence.answers()))
    return Replay(
        evidence,
        report,
        changed,
        list(_changes(evidence, report, source)),
        outputs,
        len(evidence.answers()),
    )


def _changes(evidence: Evidence, report: Report, checkpoint: Path) -> Iterator[Change]:
    if report.verdict != evidence.verdict:
        reasons = " ".join(report.reasons) or "all limits are met"
        yield Change("verdict", evidence.verdict, f"{report.verdict}: {reasons}")
    if (digest := folder_digest(checkpoint)) != evidence.checkpoint:
        yield Change("checkpoint", evidence.checkpoint[:12], digest[:12])
    yield from _fields(evidence.versions, report.versions)
    yield from _fields(evidence.hardware, report.hardware)


def _fields(then: Mapping[str, str], now: Mapping[str, str]) -> Iterator[Change]:
    for name in sorted(then.keys() | now.keys()):
        if then.get(name) != now.get(name):
            yield Change(name, then.get(name, "none"), now.get(name, "none"))


def _differences(folder: Path, recordings: Path, digests: Mapping[str, str]) -> Iterator[Change]:
    """What is not the same to the last bit, with the largest difference of its numbers."""
    for name, digest in digests.items():
        now = recordings / Path(name).relative_to(OUTPUTS)
        if not now.is_file():
            yield Change(name, "recorded", "not answered")
        elif file_digest(now) != digest:
            yield Change(name, "recorded", _distance(_arrays(folder / name), _arrays(now)))


def _arrays(path: Path) -> dict[str, Any]:
    """The arrays of a file by name; none where it is not a file of arrays."""
    try:
        found = np.load(path)
        return {"": found} if isinstance(found, np.ndarray) else dict(found)
    except (OSError, ValueError):
        return {}


def _distance(then: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    if not then or then.keys() != now.keys() or any(then[name].shape != now[name].shape for name in then):
        return "other content"
    with np.errstate(invalid="ignore"):
        apart = [np.abs(np.subtract(then[name], now[name], dtype=np.float64)) for name in then if then[name].size]
    return f"differs by at most {max((float(np.nanmax(each)) for each in apart), default=0.0):.1e}"

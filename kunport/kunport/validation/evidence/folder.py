"""The folder: what it holds, written whole or not at all, and read with every file held against its digest.

evidence.json   what was asked for, on what, with which versions, the verdict, and SHA-256 of every other file
adapter/        the adapter's own files
checkpoint/     configuration, tokenizer and weights; of a large checkpoint only its digest, in evidence.json
outputs/        the request, and what reference and engine answered (`kunport.validation.comparison.recordings`)
report.html, report.json
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from kunport_model_adapters.manifest import MANIFEST

from kunport.errors import KunportError
from kunport.folders import replaced_folder
from kunport.validation.comparison.recordings import REQUEST
from kunport.validation.provenance import file_digest
from kunport.validation.report import Report

NAME = "evidence.json"
ADAPTER, CHECKPOINT, OUTPUTS = "adapter", "checkpoint", "outputs"
FORMAT = 1
_LARGEST_CHECKPOINT = 256 << 20  # bytes; weights of a real model belong where they are kept, a tiny one's here


@dataclass(frozen=True, slots=True)
class Evidence:
    """What ``evidence.json`` says.

    Attributes:
        command: the command line that wrote it.
        architecture: of the checkpoint.
        verdict: ``pass`` or ``fail``, with its ``reasons``.
        max_error: largest difference of a log-probability (nats), None where nothing was compared.
        limits: of `kunport.validation.Limits`.
        versions, hardware: what it ran with and on.
        checkpoint: SHA-256 over the checkpoint's files.
        files: path in the folder -> SHA-256, for every file but ``evidence.json``.
    """

    command: list[str]
    architecture: str
    verdict: str
    reasons: list[str]
    max_error: float | None
    limits: dict[str, float]
    versions: dict[str, str]
    hardware: dict[str, str]
    checkpoint: str
    files: dict[str, str] = field(default_factory=dict)

    def answers(self) -> dict[str, str]:
        """The digests of what both sides answered, by path."""
        request = f"{OUTPUTS}/{REQUEST}"
        return {
            name: digest for name, digest in self.files.items() if name.startswith(f"{OUTPUTS}/") and name != request
        }


def write_evidence(
    folder: Path,
    report: Report,
    recordings: Path,
    *,
    command: Sequence[str],
    write_report: Callable[[Path], object],
) -> Path:
    """Write the evidence of a validation to ``folder``, in place of an older one; it appears whole or not at all.

    Args:
        folder: where to.
        report: of an adapter, not of vLLM's own choice of class.
        recordings: what `kunport.validation.validate` left there.
        command: the command line, as a user would type it again.
        write_report: writes the report's pages into a folder.

    Raises:
        KunportError: the folder holds something else, or cannot be written.
    """
    if folder.exists() and (not folder.is_dir() or (any(folder.iterdir()) and not (folder / NAME).exists())):
        raise KunportError(f"{folder} holds something that is no evidence.", "Name another folder with --evidence.")
    assert report.adapter is not None, "evidence is of an adapter"
    source = Path(report.checkpoint)
    with replaced_folder(folder) as new:
        _copy_adapter(Path(report.adapter), new / ADAPTER)
        _copy_checkpoint(source, new / CHECKPOINT)
        shutil.copytree(recordings, new / OUTPUTS)
        write_report(new)
        evidence = Evidence(
            command=list(command),
            architecture=report.architecture,
            verdict=report.verdict,
            reasons=report.reasons,
            max_error=report.max_error,
            limits=asdict(report.limits),
            versions=report.versions,
            hardware=report.hardware,
            checkpoint=report.digests.get("checkpoint", ""),
            files={path.relative_to(new).as_posix(): file_digest(path) for path in _files(new)},
        )
        document = {"format": FORMAT, **asdict(evidence)}
        (new / NAME).write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    return folder


def read_evidence(folder: Path) -> Evidence:
    """What a folder says of itself.

    Raises:
        KunportError: it is no evidence, or was written by a later kunport.
    """
    try:
        document = json.loads((folder / NAME).read_text(encoding="utf-8"))
        version = document.pop("format")
        evidence = Evidence(**document)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise KunportError(
            f"{folder} is no evidence of a validation: its {NAME} is missing or broken.",
            "Name a folder that `kunport validate --evidence` wrote.",
        ) from error
    if version != FORMAT:
        raise KunportError(f"{folder} is evidence in format {version}; this kunport reads {FORMAT}.", "Update kunport.")
    return evidence


def altered(folder: Path, evidence: Evidence) -> list[str]:
    """Files that are not, or no longer, what was written, and such that were added."""
    found = {path.relative_to(folder).as_posix(): path for path in _files(folder)}
    found.pop(NAME, None)
    changed = [
        name for name, digest in evidence.files.items() if name not in found or file_digest(found[name]) != digest
    ]
    return sorted({*changed, *found.keys() - evidence.files.keys()})


def read_request(folder: Path) -> dict[str, Any]:
    """What `kunport.validation.validate` was called with, besides adapter, checkpoint and limits."""
    request: dict[str, Any] = json.loads((folder / OUTPUTS / REQUEST).read_text(encoding="utf-8"))
    return request


def _copy_adapter(source: Path, target: Path) -> None:
    """The files that its manifest names, and the manifest: not the reports that may lie beside it."""
    manifest = json.loads((source / MANIFEST).read_text(encoding="utf-8"))
    for name in {MANIFEST, manifest["file"], *manifest.get("files", {})}:
        if (source / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source / name, target / name)


def _copy_checkpoint(source: Path, target: Path) -> None:
    files = [path for path in _files(source) if path.parent == source]
    if sum(path.stat().st_size for path in files) <= _LARGEST_CHECKPOINT:
        target.mkdir()
        for path in files:
            shutil.copyfile(path, target / path.name)


def _files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder).parts
        if path.is_file() and not any(part.startswith(".") or part == "__pycache__" for part in inside):
            yield path

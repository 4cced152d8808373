"""Compares what headers prove with what loading says, case by case."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kunport.analysis.assemble import read_target
from kunport.analysis.checkpoint import read_checkpoint
from kunport.analysis.config import load_config
from kunport.analysis.library import locate
from kunport.analysis.renames import SubModel, read_renames
from kunport.analysis.weights import WeightProof, check
from kunport.errors import KunportError
from kunport.loading.planted import SOUND


@dataclass(frozen=True, slots=True)
class Row:
    """A checkpoint: what the proof found, and what loading said.

    Attributes:
        case, fault: which checkpoint.
        found: what does not fit, by the proof.
        said: what does not fit, by Transformers.
        problem: why there is nothing to compare, "" where there is.
    """

    case: str
    fault: str
    found: tuple[str, ...] = ()
    said: tuple[str, ...] = ()
    problem: str = ""

    @property
    def agrees(self) -> bool:
        """Whether both find it whole, or both find it wrong; a planted fault must be found."""
        return not self.problem and bool(self.found) == bool(self.said) == (self.fault != SOUND)


def compare(names: Sequence[str], folder: Path) -> Iterator[Row]:
    """The rows of each case. A case whose child process dies is a row that says so."""
    pending = list(names)
    while pending:
        command = [sys.executable, "-m", "kunport.loading.loader", str(folder), *pending]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as child:
            assert child.stdout is not None
            for line in child.stdout:
                if line.startswith("{"):
                    said = json.loads(line)
                    pending.remove(said.pop("case"))
                    yield from _rows(folder, json.loads(line)["case"], said)
        if pending:
            yield Row(pending.pop(0), SOUND, problem=f"loading ended with status {child.returncode}")


def _rows(folder: Path, case: str, said: dict[str, Any]) -> Iterator[Row]:
    place = folder / case.replace(":", "-")
    try:
        target = locate(place / SOUND)
        reading = read_target(target, load_config(target))
        for fault, complaints in said.items():
            names = read_renames(
                replace(target, checkpoint=place / fault),
                [SubModel(*each) for each in reading.pretrained],
                reading.base,
                reading.graph.parameters,
            )
            reading.graph.renames = names.renames
            shapes = {name: tensor.shape for name, tensor in read_checkpoint(place / fault).items()}
            proof = check(reading.graph, shapes, reading.ignored)
            yield Row(case, fault, _found(proof), tuple(f"{kind}: {each}" for kind, each in complaints.items()))
    except KunportError as error:
        yield Row(case, SOUND, problem=str(error))


def _found(proof: WeightProof) -> tuple[str, ...]:
    return (*map(str, proof.faults), *(f"not proved: {path}: {reason}" for path, reason in proof.unproved.items()))

"""A port from beginning to end: analysis, generation, validation, reports."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from kunport import api
from kunport.adapter_folder import check_replaceable, folder_for, holds_adapter
from kunport.analysis import Analysis
from kunport.description import Description, describe
from kunport.errors import NotPortableError
from kunport.report.files import write_report
from kunport.tiny_models.cases import Case, case_of, cases
from kunport.validation.own_code import runs_own_code
from kunport.validation.report import FAILED, PASSED, RUNNING, Report, Stage

OnStage = Callable[[Stage], None]
T = TypeVar("T")


@dataclass(slots=True)
class Port:
    """What became of a port.

    Attributes:
        description: what the model is and does under its checkpoint's configuration, and what stood in the way.
        checkpoint: folder of the weights that the adapter was validated with.
        adapter: its folder; None where something stood in the way, and so are checkpoint and report.
        report: the evidence of the validation.
        pages: the reports on disk.
    """

    description: Description
    checkpoint: Path | None = None
    adapter: Path | None = None
    report: Report | None = None
    pages: tuple[Path, ...] = ()

    @property
    def passed(self) -> bool:
        return self.report is not None and self.report.passed


def run(model: str | Path, output: Path, on_stage: OnStage | None, options: Mapping[str, Any]) -> Port:
    """See `kunport.port`."""
    stages = _Stages(on_stage)
    case = _tiny_case(model)
    analysis = stages.run("analyze", lambda: api.analyze(case.architecture if case else model), _size)
    folder = folder_for(analysis, output)
    check_replaceable(folder)
    checkpoint = analysis.checkpoint
    try:
        api.check_understood(analysis)
        if checkpoint is not None:  # before anything is written: validation would refuse it only then
            runs_own_code(checkpoint, trusted=bool(options.get("trust_remote_code")))
        else:
            name = str(case or case_of(analysis.architecture, "Port the folder of a checkpoint."))
            checkpoint = output / "checkpoints" / name.replace(":", "-")
            stages.run("make tiny checkpoint", lambda: api.tiny(name, checkpoint), str)
            analysis = stages.run("analyze checkpoint", lambda: api.analyze(checkpoint), _size)
        adapter = stages.run("generate adapter", lambda: api.generate_adapter(analysis, output), str)
    except NotPortableError as error:
        return _not_ported(analysis, error, folder)
    report = api.validate(adapter, checkpoint, analysis=analysis, on_stage=on_stage, **options)
    report.stages[:0] = stages.ended
    description = describe(analysis.graph)
    return Port(description, checkpoint, adapter, report, write_report(adapter, report, description))


def _tiny_case(model: str | Path) -> Case | None:
    """The tiny model that a name which is no path stands for."""
    if isinstance(model, Path) or Path(model).exists():
        return None
    return next((case for case in cases() if model in (str(case), case.architecture)), None)


def _not_ported(analysis: Analysis, error: NotPortableError, folder: Path) -> Port:
    """The report that names what stood in the way; an adapter that an earlier port left keeps its own."""
    description = replace(describe(analysis.graph), unknowns=list(error.unknowns))
    pages = () if holds_adapter(folder) else write_report(folder, None, description)
    return Port(description, pages=pages)


def _size(analysis: Analysis) -> str:
    return f"{analysis.architecture}: {sum(1 for _ in analysis.graph.walk())} operations"


class _Stages:
    """Steps of this process, told of as validation tells of its own."""

    def __init__(self, on_stage: OnStage | None) -> None:
        self.ended: list[Stage] = []
        self._on_stage = on_stage or (lambda _: None)

    def run(self, name: str, work: Callable[[], T], detail: Callable[[T], str]) -> T:
        self._on_stage(Stage("kunport", name, RUNNING))
        begin = time.monotonic()
        try:
            result = work()
        except Exception as error:
            self._on_stage(Stage("kunport", name, FAILED, time.monotonic() - begin, str(error).partition("\n")[0]))
            raise
        stage = Stage("kunport", name, PASSED, time.monotonic() - begin, detail(result))
        self.ended.append(stage)
        self._on_stage(stage)
        return result

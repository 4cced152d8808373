"""Stages on the terminal while they run; a line each as they end where there is no terminal."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

from kunport.text import seconds, visible
from kunport.validation.report import PASSED, RUNNING, STOPPED, Stage

MARKS = {PASSED: ("✓", "green"), STOPPED: ("–", "dim")}
WRONG = ("✗", "bold red")


class StageDisplay:
    """A context manager that is called with each stage; finished ones stay as lines, running ones turn below them.

    It is what `kunport.validate` takes as ``on_stage``; other work may show stages of its own through it.
    """

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True)
        self._running: dict[tuple[str, str], TaskID] = {}
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )

    def __enter__(self) -> StageDisplay:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def __call__(self, stage: Stage) -> None:
        key = stage.process, stage.name
        if stage.status == RUNNING:
            text = f"{stage.process:9}  {visible(stage.name)}  {visible(stage.detail)}"
            if key in self._running:
                self._progress.update(self._running[key], description=text)
            else:
                self._running[key] = self._progress.add_task(text, total=None)
            return
        task = self._running.pop(key, None)
        if task is not None:
            self._progress.remove_task(task)
        self._console.print(stage_line(stage), soft_wrap=True)


def stage_line(stage: Stage) -> Text:
    """A finished stage as a line: mark, who, what, how long, what came out."""
    mark, style = MARKS.get(stage.status, WRONG)
    line = Text.assemble(
        (f"{mark} ", style), f"{stage.process:9}  {visible(stage.name):<26} {seconds(stage.seconds):>10}  "
    )
    if stage.status != PASSED:
        line.append(f"{stage.status}: ", style)
    line.append(visible(stage.detail), "dim" if stage.status == PASSED else "")
    return line

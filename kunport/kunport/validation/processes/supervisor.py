"""The parent's side: start a process, follow its stages, and turn whatever happens to it into a stage of the report."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from kunport.errors import KunportError
from kunport.validation import report
from kunport.validation.processes.environment import own_modules
from kunport.validation.processes.warm import Fork, is_warm
from kunport.validation.report import Stage

OnStage = Callable[[Stage], None]
_TICK = 0.2  # seconds between looks at the clock and at the request to stop
_GRACE = 5.0  # seconds that a process which is done gets to end by itself
_LOG_LINES = 40


@dataclass(slots=True)
class Outcome:
    """What a process did: its stages in order, the facts of those that passed, and whether it reached the end."""

    stages: list[Stage] = field(default_factory=list)
    facts: dict[str, dict[str, Any]] = field(default_factory=dict)
    complete: bool = False
    refusal: KunportError | None = None
    log: list[str] = field(default_factory=list)


class Supervised:
    """A process that announces stages (`kunport.validation.processes.child`), as a context manager.

    Args:
        name: what `Stage.process` says.
        command: how to start it; it runs in a session of its own, which is killed as a whole.
        environment: all of the process's environment.
        log: file that takes what it prints.
        stage_seconds: a stage that gives no sign of life for longer counts as hung.
        on_stage: told of every stage when it starts and when it ends, from the thread that follows the process.
        fresh: never a fork of a process whose libraries have read another environment already.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        environment: Mapping[str, str],
        log: Path,
        stage_seconds: float,
        on_stage: OnStage,
        stop: threading.Event | None = None,
        fresh: bool = False,
    ) -> None:
        self.outcome = Outcome()
        self.stage_seconds = stage_seconds
        self._name, self._log, self._on_stage = name, log, on_stage
        self._stop = stop or threading.Event()
        self._oom_kills = _oom_kills()
        with log.open("wb") as errors:
            self._process = _start(command, environment, errors, fresh=fresh)
        self._unread = b""
        self._events: list[dict[str, Any]] = []
        self._stage = "start"
        self._begin = self._heard = time.monotonic()

    @property
    def group(self) -> int:
        """Id of the group of processes that the process leads."""
        return self._process.pid

    def __enter__(self) -> Supervised:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._kill()

    def send(self, message: Any) -> None:
        """Give the process a line to read. A process that is gone does not raise: the next event says so."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()

    def follow(self, until: str | None = None) -> Outcome:
        """Follow the stages until the named one has passed, or to the end.

        Whatever goes wrong ends up in `outcome`, as the status of the stage in which it happened.
        """
        self._begin = self._heard = time.monotonic()
        while (event := self._next_event()) is not None:
            status, name = event["status"], event.get("stage", "")
            if status == "done":
                self.outcome.complete = True
                break
            if status == report.RUNNING:
                if name != self._stage:
                    self._stage, self._begin = name, time.monotonic()
                self._on_stage(Stage(self._name, name, report.RUNNING, detail=event.get("detail", "")))
            elif status == report.PASSED:
                self.outcome.facts[name] = event["facts"]
                self._end(report.PASSED, str(event["facts"].get("detail", "")), event["seconds"])
                if name == until:
                    return self.outcome
            elif status == "refused":
                self.outcome.refusal = KunportError(event["problem"], event["cure"])
                self._end(report.FAILED, event["problem"])
                break
            else:
                self._end(report.FAILED, event["error"])
                break
        self._kill()
        self.outcome.log = self._log.read_text(errors="replace").splitlines()[-_LOG_LINES:]
        return self.outcome

    def _end(self, status: str, detail: str, seconds: float | None = None) -> None:
        """Close the stage that runs."""
        taken = time.monotonic() - self._begin if seconds is None else seconds
        stage = Stage(self._name, self._stage, status, taken, detail)
        self.outcome.stages.append(stage)
        self._stage, self._begin = "between stages", time.monotonic()
        self._on_stage(stage)

    def _next_event(self) -> dict[str, Any] | None:
        """The next event, or None once the process is gone, hangs or has to stop; the stage is closed then."""
        assert self._process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while not self._events:
                if self._stop.is_set():
                    self._end(report.STOPPED, "stopped, since another process had failed")
                    return None
                if time.monotonic() - self._heard > self.stage_seconds:
                    self._end(report.TIMED_OUT, f"no sign of life for {self.stage_seconds:g} s")
                    return None
                if not selector.select(_TICK):
                    continue
                self._heard = time.monotonic()
                read = os.read(self._process.stdout.fileno(), 1 << 16)
                if not read:
                    self._end(*self._how_it_ended())
                    return None
                *lines, self._unread = (self._unread + read).split(b"\n")
                self._events.extend(json.loads(line) for line in lines)
        return self._events.pop(0)

    def _how_it_ended(self) -> tuple[str, str]:
        try:
            code = self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            return report.CRASHED, "closed its output and went on"
        if code == -signal.SIGKILL:
            cause = "the kernel ran out of memory" if _oom_kills() > self._oom_kills else "probably for lack of memory"
            return report.KILLED, f"killed by SIGKILL, {cause}"
        if code < 0:
            return report.CRASHED, f"crashed with {signal.Signals(-code).name}"
        return report.CRASHED, f"ended without a word, exit status {code}"

    def _kill(self) -> None:
        """End the process and all that it started; one that is done gets a moment to close its files."""
        if self.outcome.complete:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=_GRACE)
        with suppress(ProcessLookupError):
            os.killpg(self.group, signal.SIGKILL)
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with suppress(BrokenPipeError):
                pipe.close()


def _start(
    command: Sequence[str], environment: Mapping[str, str], errors: IO[bytes], *, fresh: bool
) -> subprocess.Popen[bytes] | Fork:
    module = command[2] if len(command) == 3 and command[1] == "-m" else ""
    if is_warm(module) and not fresh:
        return Fork(module, environment, errors)
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        env=environment,
        start_new_session=True,
    )


def _oom_kills() -> int:
    """How many processes the kernel has killed for lack of memory, in this machine and in this container."""
    count = 0
    for path, key in (("/proc/vmstat", "oom_kill"), ("/sys/fs/cgroup/memory.events", "oom_kill")):
        try:
            lines = Path(path).read_text().splitlines()
        except OSError:
            continue
        count += sum(int(line.split()[1]) for line in lines if line.split()[0] == key)
    return count


def follow_module(
    name: str,
    job: Any,
    *,
    environment: Mapping[str, str],
    work: Path,
    stage_seconds: float,
    on_stage: OnStage,
    module: str = "",
    stop: threading.Event | None = None,
    fresh: bool = False,
) -> Outcome:
    """Give a job to a process that runs a module of `kunport.validation`, and follow it to its end: see `Supervised`.

    The module is called ``name`` as the process is, unless it is named; its log and modules of its own lie in ``work``.
    """
    module = module or name
    with Supervised(
        name,
        [sys.executable, "-m", f"kunport.validation.{module}"],
        environment=own_modules(environment, work / f"{module}-modules"),
        log=work / f"{module}.log",
        stage_seconds=stage_seconds,
        on_stage=on_stage,
        stop=stop,
        fresh=fresh,
    ) as process:
        process.send(job)
        return process.follow()

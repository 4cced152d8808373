"""Both processes of a validation, at the same time."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from kunport.validation.processes.environment import (
    engine_environment,
    reference_environment,
    threads_per_process,
)
from kunport.validation.processes.supervisor import OnStage, Outcome, follow_module


def run_both(
    adapter: Path | None,
    reference_job: Mapping[str, Any],
    engine_job: Mapping[str, Any],
    *,
    logs: Path,
    stage_seconds: float,
    on_stage: OnStage,
) -> tuple[Outcome, Outcome]:
    """Reference and engine, each on half of the cores: what became of them, in this order.

    Without a reference there is nothing to compare with, so its failure stops the engine; so does an interruption.
    """
    threads = threads_per_process(2)
    stop = threading.Event()

    def follow(name: str, environment: Mapping[str, str], job: Mapping[str, Any]) -> Outcome:
        outcome = follow_module(
            name, job, environment=environment, work=logs, stage_seconds=stage_seconds, on_stage=on_stage, stop=stop
        )
        if not outcome.complete and (name == "reference" or outcome.refusal is not None):
            stop.set()
        return outcome

    with ThreadPoolExecutor(2) as pool:
        try:
            reference = pool.submit(follow, "reference", reference_environment(threads), reference_job)
            engine = pool.submit(follow, "engine", engine_environment(adapter, threads), engine_job)
            return reference.result(), engine.result()
        except BaseException:
            stop.set()
            raise

"""After a verdict, or for one: which module is at fault, in two processes of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kunport.validation.modules.engine import RECORDING
from kunport.validation.plan import Plan
from kunport.validation.processes.environment import (
    engine_environment,
    reference_environment,
    threads_per_process,
)
from kunport.validation.processes.supervisor import OnStage, follow_module
from kunport.validation.report import Fault, Modules

_BYTES = 512 << 20  # of a recording
# Values a layer's modules take and give for one token, in widths of the hidden state; expanded ones included.
_WIDTHS = 40


def locate(plan: Plan, work: Path, *, stage_seconds: float, on_stage: OnStage) -> Modules | None:
    """Record the engine's modules, and judge them one by one; None where a process did not get so far."""
    adapter = None if plan.adapter is None else plan.adapter.folder
    file = None if plan.adapter is None else str(plan.adapter.folder / plan.adapter.manifest.file)
    job = plan.engine_job(work) | {"keep": _kept(plan)}
    how: Any = {"work": work, "stage_seconds": stage_seconds, "on_stage": on_stage}
    engine = engine_environment(adapter, threads_per_process(1))
    recorded = follow_module("engine", job, module="modules.engine", environment=engine, **how).facts
    if "record modules" not in recorded:
        return None
    job = plan.job(work) | {
        "dtype": plan.dtype,
        "limit": None,
        "recordings": {"compare modules": (str(work / RECORDING), file)},
    }
    reference = reference_environment(threads_per_process(1))
    outcome = follow_module("reference", job, module="modules.reference", environment=reference, **how)
    judged = outcome.facts.get("compare modules")
    if judged is None:
        return None
    found = judged["modules"]
    fault = found.pop("fault")
    modules = Modules(**found, fault=None if fault is None else Fault(**fault))
    modules.disturbed = recorded["record modules"]["disturbed"]
    return modules


def _kept(plan: Plan) -> int:
    """How many requests a recording holds without growing too large: one at least."""
    token = plan.checkpoint.layers * plan.checkpoint.width * _WIDTHS * 4
    total = 0
    for count, prompt in enumerate(plan.prompts):
        total += (len(prompt) + plan.tokens) * token
        if total > _BYTES:
            return max(1, count)
    return len(plan.prompts)

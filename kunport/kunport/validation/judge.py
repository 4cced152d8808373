"""`validate`: the real model and the real engine side by side, and a verdict."""

from __future__ import annotations

import json
import pickle
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from kunport_codegen.graph import Graph
from kunport_model_adapters.manifest import MANIFEST

from kunport.validation import provenance
from kunport.validation.adapter import is_its_class
from kunport.validation.comparison import Expected, Observed, compare_batch
from kunport.validation.comparison.recordings import REQUEST
from kunport.validation.limits import Limits
from kunport.validation.locate import locate
from kunport.validation.plan import Plan, make_plan
from kunport.validation.processes.child import one_line
from kunport.validation.processes.supervisor import OnStage, Outcome
from kunport.validation.prompts import unreached_windows
from kunport.validation.reasons import reasons_of
from kunport.validation.report import FAILED, PASSED, RUNNING, Engine, GraphCheck, Memory, RanClass, Report, Stage
from kunport.validation.run import run_both


def validate(
    adapter: Path | None,
    checkpoint: Path,
    *,
    graph: Graph | None = None,
    batch_sizes: Sequence[int] = (1, 2, 4, 8),
    dtype: str = "float32",
    prompts: Sequence[Sequence[int]] | None = None,
    seed: int = 0,
    tokens: int = 16,
    trust_remote_code: bool = False,
    limits: Limits | None = None,
    recordings: Path | None = None,
    on_stage: OnStage | None = None,
) -> Report:
    """Compare an adapter in the real vLLM engine with the real Hugging Face model.

    Reference and engine run at the same time, in processes of their own; whatever happens to them becomes a stage of
    the report and a reason of its verdict.

    Args:
        adapter: the adapter's folder, or a folder of such folders; None judges vLLM's own choice of class.
        checkpoint: folder of configuration and weights.
        graph: the model graph, which is then executed as it is and compared as well.
        batch_sizes: a batch of n runs the first n prompts at once.
        dtype: what the engine computes in: ``float32``, ``bfloat16`` or ``float16``.
        prompts: token ids, at least as many prompts as the largest batch; by default random ragged ones.
        seed: of the prompts and of the engine.
        tokens: how many to generate for each prompt.
        trust_remote_code: let reference and engine run the code in the checkpoint's folder, where that is its model.
        limits: what the adapter must meet.
        recordings: a folder for what was asked and what both sides answered, as `comparison.recordings` has it.
        on_stage: told of each stage when it starts and when it ends, from one thread at a time.

    Raises:
        KunportError: the input or the call is wrong, so that there is nothing to judge.
    """
    limits = limits or Limits()
    plan = make_plan(
        adapter,
        checkpoint,
        batch_sizes=batch_sizes,
        dtype=dtype,
        prompts=prompts,
        seed=seed,
        tokens=tokens,
        trust_remote_code=trust_remote_code,
    )
    report = _empty_report(plan, limits)
    stages = _Stages(report.stages, on_stage)
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="kunport-") as name:
        work = Path(name)
        graph_file = None if graph is None else work / "graph.pickle"
        if graph_file is not None:
            graph_file.write_bytes(pickle.dumps(graph))
        reference, engine = run_both(
            None if plan.adapter is None else plan.adapter.folder,
            plan.job(work) | {"graph": graph_file and str(graph_file)},
            plan.engine_job(work),
            logs=work,
            stage_seconds=limits.stage_seconds,
            on_stage=stages.record,
        )
        for outcome in (reference, engine):
            if outcome.refusal is not None:
                raise outcome.refusal
        _collect(report, plan, reference, engine)
        if recordings is not None:
            _keep(plan, work, recordings, trust_remote_code=trust_remote_code)
        if reference.complete:
            stages.run("compare", lambda: _compare(report, plan, engine, work))
        if reference.complete and engine.complete and (dtype != "float32" or reasons_of(report)):
            report.modules = locate(plan, work, stage_seconds=limits.stage_seconds, on_stage=stages.record)
    stages.run("digests", lambda: _digests(report, plan))
    report.reasons = reasons_of(report)
    report.seconds = time.monotonic() - begin
    return report


class _Stages:
    """Records stages in a report as they end, and passes all of them on."""

    def __init__(self, ended: list[Stage], on_stage: OnStage | None) -> None:
        self._ended, self._on_stage, self._lock = ended, on_stage, threading.Lock()

    def record(self, stage: Stage) -> None:
        with self._lock:
            if stage.status != RUNNING:
                self._ended.append(stage)
            if self._on_stage is not None:
                self._on_stage(stage)

    def run(self, name: str, work: Callable[[], str]) -> None:
        """A stage of this process; what ``work`` returns or raises is its detail."""
        self.record(Stage("kunport", name, RUNNING))
        begin = time.monotonic()
        try:
            status, detail = PASSED, work()
        except (ValueError, OSError) as error:
            status, detail = FAILED, one_line(error)
        self.record(Stage("kunport", name, status, time.monotonic() - begin, detail))


def _empty_report(plan: Plan, limits: Limits) -> Report:
    return Report(
        adapter=None if plan.adapter is None else str(plan.adapter.folder),
        checkpoint=str(plan.checkpoint.folder),
        architecture=plan.checkpoint.architecture,
        model_type=plan.checkpoint.model_type,
        dtype=plan.dtype,
        seed=plan.seed,
        prompt_kind=plan.prompt_kind,
        prompt_lengths=[len(prompt) for prompt in plan.prompts],
        tokens=plan.tokens,
        limits=limits,
        top=plan.top,
        notes=unreached_windows(plan.checkpoint.config, plan.longest),
        versions=provenance.versions(),
        hardware=provenance.hardware(),
    )


def _collect(report: Report, plan: Plan, reference: Outcome, engine: Outcome) -> None:
    """What the processes say about themselves."""
    for name, outcome in (("reference", reference), ("engine", engine)):
        report.versions |= outcome.facts.get("import", {}).get("versions", {})
        if not outcome.complete:
            report.logs[name] = outcome.log
    model = reference.facts.get("load", {})
    report.parameters = model.get("parameters")
    if unused := model.get("unused"):
        report.notes.append(f"Transformers does not use {len(unused)} tensors of the checkpoint, {unused[0]} for one.")
    if graph := reference.facts.get("graph"):
        report.graph = GraphCheck(graph["positions"], graph["max_absolute"], graph["max_relative"])
    if loaded := engine.facts.get("load"):
        ran = RanClass(**loaded["ran"])
        if plan.adapter is not None:
            ran.is_adapter = is_its_class(plan.adapter, ran.file, ran.name)
        report.engine = Engine(ran, **loaded["settings"])
        report.hardware["device"] = loaded["device"]


def _compare(report: Report, plan: Plan, engine: Outcome, work: Path) -> str:
    """Every batch that the engine got to; those before a crash are compared as well."""
    expected = [Expected.load(work, request) for request in range(len(plan.prompts))]
    for size in plan.batch_sizes:
        if f"log-probabilities, batch {size}" not in engine.facts:
            continue
        run = engine.facts[f"memory and speed, batch {size}"]
        observed = [Observed.load(work, size, request) for request in range(size)]
        memory = Memory(run["live_bytes"], run["resident_bytes"])
        report.batches.append(compare_batch(expected[:size], observed, report.limits, memory, run["seconds"]))
    return "" if report.max_error is None else f"largest error {report.max_error:.1e}"


def _keep(plan: Plan, work: Path, folder: Path, *, trust_remote_code: bool) -> None:
    """What was asked, by the names of `validate`'s arguments, and what both sides wrote down."""
    folder.mkdir(parents=True, exist_ok=True)
    request = {
        "prompts": plan.prompts,
        "batch_sizes": plan.batch_sizes,
        "dtype": plan.dtype,
        "seed": plan.seed,
        "tokens": plan.tokens,
        "trust_remote_code": trust_remote_code,
    }
    (folder / REQUEST).write_text(json.dumps(request), encoding="utf-8")
    for path in sorted(work.glob("*.np[yz]")):
        shutil.copyfile(path, folder / path.name)


def _digests(report: Report, plan: Plan) -> str:
    report.digests["checkpoint"] = provenance.folder_digest(plan.checkpoint.folder)
    if plan.adapter is not None:
        manifest = plan.adapter.manifest
        # What belongs to the adapter, not the reports that may lie beside it.
        report.digests["adapter"] = provenance.digest(plan.adapter.folder, [MANIFEST, manifest.file, *manifest.files])
    return ""

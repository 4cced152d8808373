"""Plants every kind that applies to an adapter, runs all of them, and fills the table."""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kunport.validation.adapter import choose_adapter
from kunport.validation.plan import Plan, make_plan
from kunport.validation.planted import NotApplicableError, Place, Source, kinds
from kunport.validation.processes.environment import (
    engine_environment,
    reference_environment,
    threads_per_process,
)
from kunport.validation.processes.supervisor import Outcome, follow_module
from kunport.validation.processes.warm import warm
from kunport.validation.selftest.table import Row, Table

# Twelve families that have between them what decoders are made of.
FAMILIES = (
    "llama:bias_tied_yarn",
    "qwen3_moe",
    "gemma2",
    "olmo2",
    "granite:multipliers",
    "glm4_moe",
    "deepseek_v3",
    "cohere2",
    "bloom",
    "gpt_neox",
    "qwen2_moe",
    "mimo_v2_flash",
)
# Lengths in tokens: beyond the windows of tiny models, over a page, and two of a length.
LENGTHS = (41, 9, 17, 9)
TOKENS = 4
CLEAN = "clean"
_VARIANT_SECONDS, _STAGE_SECONDS = 120.0, 600.0


@dataclass(frozen=True, slots=True)
class Subject:
    """An adapter and a checkpoint that is right for it, under the name that the table shows."""

    family: str
    adapter: Path
    checkpoint: Path


def run(
    subjects: Sequence[Subject],
    *,
    chosen: Collection[str] | None = None,
    dtype: str = "float32",
    seeds: Sequence[int] = (0,),
    limit: float = 1e-4,
    on_row: Callable[[Row], None] | None = None,
) -> Table:
    """Plant in each adapter the kinds that apply, and judge; the adapter as it is comes first.

    Args:
        subjects: the adapters, each with a checkpoint that it is right for.
        chosen: names of kinds; all if None.
        dtype: what the engine computes in.
        seeds: of the prompts: the adapter as it is runs with each, the bugs with the first.
        limit: of log-probabilities in float32 (nats).
        on_row: told of each row when it is known.
    """
    table = Table()
    with warm():
        for subject in subjects:
            for row in _rows(subject, kinds() if chosen is None else chosen, dtype, seeds, limit):
                table.rows.append(row)
                if on_row is not None:
                    on_row(row)
    return table


def _rows(subject: Subject, names: Collection[str], dtype: str, seeds: Sequence[int], limit: float) -> list[Row]:
    plan = make_plan(
        subject.adapter,
        subject.checkpoint,
        batch_sizes=(len(LENGTHS),),
        dtype=dtype,
        prompts=_prompts(subject.checkpoint, seeds[0]),
        seed=seeds[0],
        tokens=TOKENS,
        trust_remote_code=False,
    )
    adapter = choose_adapter(subject.adapter, plan.checkpoint.architecture)
    source = adapter.folder / adapter.manifest.file
    with tempfile.TemporaryDirectory(prefix="kunport-") as folder:
        work = Path(folder)
        places, reasons = _plant(source, plan, names, work)
        # The adapter as it is goes the same way as the others, or an error of that way would pass for a bug caught.
        clean = {f"{CLEAN}{seed}": _prompts(subject.checkpoint, seed) for seed in seeds}
        for name in clean:
            (work / f"{name}.py").write_text(source.read_text(encoding="utf-8"), encoding="utf-8")
        files = {name: work / f"{name}.py" for name in (*clean, *places)}
        engine = _engine(plan, adapter.folder, files, clean, work)
        recorded = {
            name: (work / f"{name}.pt", file) for name, file in files.items() if (work / f"{name}.pt").is_file()
        }
        reference = _reference(plan, recorded, dtype, limit, work)
        rows = [_row(subject.family, name, places.get(name), engine, reference) for name in files]
    return rows + [Row(subject.family, name, reason=reason) for name, reason in reasons.items()]


def _plant(source: Path, plan: Plan, names: Collection[str], work: Path) -> tuple[dict[str, Place], dict[str, str]]:
    """Files of changed source in ``work``; where each is wrong, and why the other kinds do not apply."""
    places, reasons = {}, {}
    text = source.read_text(encoding="utf-8")
    for name in names:
        tree = Source(text, plan.checkpoint.config)
        try:
            places[name] = kinds()[name](tree)
        except NotApplicableError as reason:
            reasons[name] = str(reason)
            continue
        (work / f"{name}.py").write_text(tree.text(), encoding="utf-8")
    return places, reasons


def _engine(
    plan: Plan, adapter: Path, variants: Mapping[str, Path], clean: Mapping[str, list[list[int]]], work: Path
) -> Outcome:
    job = plan.engine_job(work) | {
        "variants": {name: str(file) for name, file in variants.items()},
        "clean": clean,
        "variant_seconds": _VARIANT_SECONDS,
    }
    return _follow("selftest.engine", engine_environment(adapter, threads_per_process(2)), job, work)


def _reference(plan: Plan, recorded: Mapping[str, tuple[Path, Path]], dtype: str, limit: float, work: Path) -> Outcome:
    job = plan.job(work) | {
        "dtype": dtype,
        "limit": limit if dtype == "float32" else None,
        "recordings": {name: (str(file), str(source)) for name, (file, source) in recorded.items()},
    }
    return _follow("modules.reference", reference_environment(threads_per_process(2)), job, work)


def _follow(name: str, environment: Mapping[str, str], job: Any, work: Path) -> Outcome:
    return follow_module(
        name, job, environment=environment, work=work, stage_seconds=_STAGE_SECONDS, on_stage=lambda stage: None
    )


def _row(family: str, name: str, place: Place | None, engine: Outcome, reference: Outcome) -> Row:
    kind = name if place is not None else ""
    started = engine.facts.get(name)
    if started is None:
        return Row(family, kind, checks=("start",), detail=_how_it_ended(engine))
    wanted = "" if place is None else _wanted(place)
    if started["error"]:
        named = started["error"].rpartition("(")[2].rstrip(")") if started["error"].endswith(")") else ""
        parts = set(named.split("."))
        right = place is not None and (place.attribute in parts or any(str(layer) in parts for layer in place.layers))
        return Row(family, kind, "", ("start",), named, wanted, right, detail=started["error"])
    judged = reference.facts.get(name)
    if judged is None:
        return Row(family, kind, checks=("reference",), wanted=wanted, detail=_how_it_ended(reference))
    fault, error = judged["modules"]["fault"], judged["modules"]["max_error"]
    named = "" if fault is None else f"{fault['module'] or 'the whole model'} ({fault['kind']})"
    right = fault is not None and place is not None and _is_right(place, fault)
    detail = "" if fault is None else f"{fault['module']}: {fault['said']}, ratio {fault['ratio']:.2f}"
    return Row(family, kind, "", tuple(judged["checks"]), named, wanted, right, error, detail)


def _is_right(place: Place, fault: Mapping[str, Any]) -> bool:
    if place.layers:
        return any(f".{layer}." in fault["module"] for layer in place.layers)
    if place.attribute:
        return bool(fault["module"].rpartition(".")[2] == place.attribute and fault["owner"] == place.owner)
    return bool(fault["kind"] == place.owner)


def _wanted(place: Place) -> str:
    if place.layers:
        return f"layer {' or '.join(map(str, place.layers))}"
    return ".".join(part for part in (place.owner, place.attribute) if part)


def _how_it_ended(outcome: Outcome) -> str:
    last = outcome.stages[-1] if outcome.stages else None
    return "it did not start" if last is None else f"stage {last.name!r} {last.status}: {last.detail}"


def _prompts(checkpoint: Path, seed: int) -> list[list[int]]:
    config = json.loads((checkpoint / "config.json").read_text(encoding="utf-8"))
    draw = random.Random(seed)
    return [[draw.randrange(4, config["vocab_size"]) for _ in range(length)] for length in LENGTHS]

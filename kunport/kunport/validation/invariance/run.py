"""Runs the cells, each engine in a process of its own, two at a time."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from kunport.errors import KunportError
from kunport.validation.comparison import Observed
from kunport.validation.invariance.cells import CELLS, LENGTHS, TOKENS, Cell
from kunport.validation.invariance.difference import differ
from kunport.validation.invariance.matrix import FAIL, NOT_APPLICABLE, PASS, Matrix, Row
from kunport.validation.limits import Limits
from kunport.validation.plan import Plan, make_plan
from kunport.validation.processes.environment import engine_environment, threads_per_process
from kunport.validation.processes.supervisor import Outcome, follow_module

_KEPT = "together"  # the ask whose answers the others are held against


def run(
    adapter: Path,
    checkpoint: Path,
    *,
    chosen: Sequence[str] = (),
    dtype: str = "float32",
    seed: int = 0,
    limits: Limits | None = None,
    trust_remote_code: bool = False,
    on_row: Callable[[Row], None] | None = None,
) -> Matrix:
    """The matrix of an adapter, or the chosen cells of it.

    Args:
        adapter: the adapter's folder.
        checkpoint: folder of configuration and weights.
        chosen: names of `CELLS`; all without any.
        dtype: what the engine computes in.
        seed: of the prompts and of the engine.
        limits: ``log_probability`` is how far answers may be apart, ``tie`` what greedy tokens are allowed.
        trust_remote_code: let the engine run the code in the checkpoint's folder, where that is its model.
        on_row: told of each row in turn, as soon as it is known.

    Raises:
        KunportError: a cell has no such name, or the engine refuses the adapter.
    """
    known = {cell.name: cell for cell in CELLS}
    if unknown := next((name for name in chosen if name not in known), None):
        raise KunportError(f"There is no cell {unknown!r}.", f"There are {', '.join(known)}.")
    cells = [known[name] for name in chosen] or list(CELLS)
    plan = make_plan(
        adapter,
        checkpoint,
        batch_sizes=(len(LENGTHS),),
        dtype=dtype,
        prompts=None,
        lengths=LENGTHS,
        seed=seed,
        tokens=TOKENS,
        trust_remote_code=trust_remote_code,
    )
    matrix = Matrix()
    with tempfile.TemporaryDirectory(prefix="kunport-") as folder:
        for row in _rows(_Runs(plan, limits or Limits(), Path(folder)), cells):
            matrix.rows.append(row)
            if on_row is not None:
                on_row(row)
    return matrix


def _rows(runs: _Runs, cells: Sequence[Cell]) -> Iterator[Row]:
    """In the order of the cells; those that one engine serves are asked of it in turn."""
    asks = [cell.ask for cell in cells if not cell.own_engine]
    kept = runs.engine("kept", (_KEPT, *asks), None, 1)
    if _KEPT not in kept.facts:
        raise kept.refusal or KunportError(
            f"The engine does not answer: {_how_it_ended(kept)}.", "Run `kunport validate` on the adapter first."
        )
    groups = kept.facts["load"]["groups"]
    with ThreadPoolExecutor(2) as pool:
        for own, run in groupby(cells, lambda cell: cell.own_engine):
            if own:
                yield from pool.map(lambda cell: runs.row(cell, runs.engine(cell.name, (cell.ask,), cell, groups)), run)
            else:
                yield from (runs.row(cell, kept, shared=True) for cell in run)


@dataclass(frozen=True, slots=True)
class _Runs:
    """Engines on one plan; the answers to keep lie in ``folder/kept/together``."""

    plan: Plan
    limits: Limits
    folder: Path

    def engine(self, name: str, asks: Sequence[str], cell: Cell | None, groups: int) -> Outcome:
        """An engine that answers the asks, with its answers in ``folder/NAME``."""
        work = self.folder / name.replace(" ", "-")
        work.mkdir()
        adapter = None if self.plan.adapter is None else self.plan.adapter.folder
        environment = engine_environment(adapter, threads_per_process(2))
        settings: dict[str, Any] = {"disable_log_stats": False}
        provider = ""
        if cell is not None:
            environment |= cell.environment
            settings |= cell.arguments(groups)
            provider = cell.name.removeprefix("provider ") if cell.proof == "provider_calls" else ""
        job = self.plan.engine_job(work) | {
            "settings": settings,
            "asks": asks,
            "answers": str(self._kept),
            "provider": provider,
        }
        return follow_module(
            "invariance.engine",
            job,
            environment=environment,
            work=work,
            stage_seconds=self.limits.stage_seconds,
            on_stage=lambda stage: None,
            fresh=cell is not None and bool(cell.environment),
        )

    @property
    def _kept(self) -> Path:
        return self.folder / "kept" / _KEPT

    def row(self, cell: Cell, outcome: Outcome, *, shared: bool = False) -> Row:
        """What a cell's engine makes of it."""
        stages = [stage for stage in outcome.stages if stage.name == cell.ask or not shared]
        seconds = sum(stage.seconds or 0.0 for stage in stages)
        if outcome.refusal is not None:
            return Row(cell.name, NOT_APPLICABLE, detail=outcome.refusal.problem, seconds=seconds)
        facts = outcome.facts.get(cell.ask)
        if facts is None:
            return Row(cell.name, FAIL, detail=_how_it_ended(outcome), seconds=seconds)
        if cell.proof and not facts[cell.proof]:
            return Row(cell.name, NOT_APPLICABLE, detail=cell.missing, seconds=seconds)
        place = self.folder / ("kept" if shared else cell.name.replace(" ", "-")) / cell.ask
        kept, found = (
            [Observed.load(each, 0, request) for request in range(len(LENGTHS))] for each in (self._kept, place)
        )
        apart = differ(kept, found, self.plan.checkpoint.vocabulary, self.limits.tie)
        good = apart.error <= self.limits.log_probability and apart.equal == apart.total
        proof = f"{facts[cell.proof]} {cell.proof.replace('_', ' ')}" if cell.proof else ""
        numbers = (apart.error, apart.divergence, apart.equal, apart.total)
        return Row(cell.name, PASS if good else FAIL, *numbers, detail=proof, seconds=seconds)


def _how_it_ended(outcome: Outcome) -> str:
    last = outcome.stages[-1] if outcome.stages else None
    return "it did not start" if last is None else f"stage {last.name!r} {last.status}: {last.detail}"

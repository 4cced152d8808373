"""Why a port is not to be trusted: one sentence for each thing that is wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from kunport.validation.report import PASSED, STOPPED, Batch, Report


def reasons_of(report: Report) -> list[str]:
    """Every reason against the adapter, the most fundamental first; empty where all is as it must be."""
    return [reason for check in CHECKS.values() for reason in check(report)]


def _stages(report: Report) -> Iterator[str]:
    for stage in report.stages:
        if stage.status not in (PASSED, STOPPED):
            yield f"{stage.process}, stage {stage.name!r}: {stage.status}: {stage.detail}."


def _class_that_ran(report: Report) -> Iterator[str]:
    if report.engine is not None and report.engine.ran.is_adapter is False:
        ran = report.engine.ran
        yield f"The adapter did not run: the engine used {ran.name} of {ran.module} ({ran.file})."


def _graph(report: Report) -> Iterator[str]:
    # Written so that NaN fails: no comparison with NaN holds.
    if report.graph is not None and not report.graph.max_relative <= report.limits.graph:
        yield (
            f"The model graph is not the model: its logits differ by {report.graph.max_relative:.1e} of the largest "
            f"logit, {report.limits.graph:.0e} is allowed."
        )


def _batches(report: Report) -> Iterator[str]:
    if not report.batches:
        yield "No batch was compared."
    for batch in report.batches:
        yield from (f"Batch of {batch.size}: {problem}." for problem in _problems(report, batch))


def _problems(report: Report, batch: Batch) -> Iterator[str]:
    limit = report.limits.log_probability
    if batch.not_finite:
        yield f"{batch.not_finite} of {batch.compared} log-probabilities are not finite"
    if report.dtype != "float32":  # how far off it may be is the modules' to say
        return
    if not batch.max_error <= limit and batch.worst is not None:
        worst = batch.worst
        yield (
            f"log-probabilities differ by up to {batch.max_error:.1e}, {limit:.0e} is allowed "
            f"(request {worst.request}, position {worst.position})"
        )
    for mismatch in batch.mismatches:
        got = "nothing" if mismatch.got is None else f"token {mismatch.got}"
        yield (
            f"request {mismatch.request} generates {got} for {mismatch.expected} at step {mismatch.step}, "
            f"which the reference finds {mismatch.gap:.1e} nats less likely"
        )
    if batch.repeat_differs:
        yield f"a second run left the reference's tokens in requests {', '.join(map(str, batch.repeat_differs))}"


def _modules(report: Report) -> Iterator[str]:
    found = report.modules
    if found is None:
        if report.dtype != "float32" and report.batches:
            yield f"The precision of {report.dtype} was not judged, since the modules were not recorded."
        return
    if report.dtype != "float32" and not found.ratio <= found.allowed:
        yield (
            f"In {report.dtype} the logits are {found.ratio:.2f} times as far off as the reference's own in that "
            f"precision, {found.allowed:g} is allowed."
        )
    if found.fault is not None:
        fault = found.fault
        where = " and ".join(line for line in (fault.adapter_line, fault.reference_line) if line)
        yield (
            f"It starts in {fault.module or 'the model itself'} ({fault.kind}): {fault.said}; relative error "
            f"{fault.relative:.1e}, {fault.ratio:.3g} times the reference's own, request {fault.request}, "
            f"position {fault.position}{f' ({where})' if where else ''}."
        )


# Name of a check -> what it has against the adapter.
CHECKS: Mapping[str, Callable[[Report], Iterator[str]]] = {
    "runs": _stages,
    "its class is what ran": _class_that_ran,
    "the graph is the model": _graph,
    "log-probabilities and tokens": _batches,
    "modules": _modules,
}

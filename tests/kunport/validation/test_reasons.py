"""Every way to be wrong gives a reason, and nothing else does."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from kunport.validation.reasons import reasons_of
from kunport.validation.report import GraphCheck, Mismatch, RanClass, Report, Stage
from sample_reports import sample_report

Change = Callable[[Report], None]


def test_a_good_report_has_no_reason() -> None:
    report = sample_report()
    assert reasons_of(report) == []
    assert report.passed
    assert report.verdict == "pass"


def test_a_report_without_an_adapter_does_not_ask_for_its_class() -> None:
    report = sample_report()
    assert report.engine is not None
    report.engine.ran.is_adapter = None
    assert reasons_of(report) == []


def another_class(report: Report) -> None:
    assert report.engine is not None
    report.engine.ran = RanClass("vllm.models.llama", "LlamaForCausalLM", "/vllm/llama.py", is_adapter=False)


def graph(value: float) -> Change:
    return lambda report: setattr(report, "graph", GraphCheck(10, value, value))


def batch(**fields: object) -> Change:
    def change(report: Report) -> None:
        for name, value in fields.items():
            setattr(report.batches[1], name, value)

    return change


def stage(status: str) -> Change:
    return lambda report: report.stages.append(Stage("engine", "load", status, 1.0, "it was too much"))


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (another_class, "The adapter did not run: the engine used LlamaForCausalLM"),
        (graph(2e-6), "The model graph is not the model"),
        (graph(math.nan), "The model graph is not the model"),
        (batch(max_error=1.01e-4), "Batch of 2: log-probabilities differ by up to 1.0e-04, 1e-04 is allowed"),
        (batch(max_error=math.nan), "Batch of 2: log-probabilities differ"),
        (batch(not_finite=3), "Batch of 2: 3 of 200 log-probabilities are not finite"),
        (batch(mismatches=[Mismatch(1, 4, 7, 9, 0.25)]), "request 1 generates token 9 for 7 at step 4"),
        (batch(mismatches=[Mismatch(1, 4, 7, None, math.inf)]), "request 1 generates nothing for 7 at step 4"),
        (batch(repeat_differs=[0, 1]), "a second run left the reference's tokens in requests 0, 1"),
        (stage("crashed"), "engine, stage 'load': crashed: it was too much"),
        (stage("killed"), "killed"),
        (stage("timed out"), "timed out"),
        (stage("failed"), "failed"),
    ],
)
def test_each_fault_is_a_reason(change: Change, expected: str) -> None:
    report = sample_report()
    change(report)
    reasons = reasons_of(report)
    assert len(reasons) == 1
    assert expected in reasons[0]
    assert reasons[0].endswith(".")


def test_a_process_stopped_by_kunport_is_no_reason_of_its_own() -> None:
    report = sample_report()
    stage("stopped")(report)
    assert reasons_of(report) == []


def test_nothing_compared_is_never_a_pass() -> None:
    report = sample_report()
    report.batches = []
    assert reasons_of(report)


def test_exactly_at_the_limit_passes() -> None:
    report = sample_report()
    batch(max_error=report.limits.log_probability)(report)
    graph(report.limits.graph)(report)
    assert reasons_of(report) == []

"""Every way to be wrong gives a reason, and nothing else does."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from kunport.validation.reasons import reasons_of
from kunport.validation.report import Fault, GraphCheck, Mismatch, Modules, RanClass, Report, Stage
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


def modules(dtype: str, ratio: float, fault: Fault | None = None) -> Change:
    def change(report: Report) -> None:
        report.dtype = dtype
        report.modules = Modules(90, ratio, 1.2, 0.1, 0.1, 1e-4, 0.99, 0.9999, 2.0, fault)

    return change


FAULT = Fault("model.norm", "RMSNorm", "LlamaModel", "its output is not right", "llama.py:3", "m.py:5", 3.0, 1e-5, 0, 7)


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
        (
            modules("float32", 9.9, FAULT),
            "It starts in model.norm (RMSNorm): its output is not right; relative error 1.0e-05",
        ),
        (modules("bfloat16", 1.3), "In bfloat16 the logits are 1.30 times as far off as the reference's own"),
        (modules("bfloat16", math.nan), "In bfloat16 the logits are nan times as far off"),
        (lambda report: setattr(report, "dtype", "bfloat16"), "The precision of bfloat16 was not judged"),
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


def test_in_a_narrow_precision_the_ratio_decides() -> None:
    report = sample_report()
    modules("bfloat16", 1.1)(report)
    batch(max_error=0.1, mismatches=[Mismatch(1, 4, 7, 9, 0.25)], repeat_differs=[0])(report)
    assert reasons_of(report) == []


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

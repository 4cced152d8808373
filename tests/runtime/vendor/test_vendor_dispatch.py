"""The vendor as a provider: chosen first, probed, counted, and passed over with a reason."""

from __future__ import annotations

import pytest
import torch
from kunport_runtime.operators.accounting import Ledger, demand_no_fallback
from kunport_runtime.operators.dispatch import Dispatcher
from kunport_runtime.operators.policy import Policy, Rule
from kunport_runtime.operators.probe import Probes
from kunport_runtime.operators.registry import Registry
from kunport_runtime.simulator.rules import VendorRuleError
from simulated_wheel import simulated


@pytest.fixture
def dispatcher(tmp_path):
    with simulated():
        yield Dispatcher(Registry(), Policy(Rule(order=("vendor", "torch"))), Probes(tmp_path), Ledger())


def test_what_it_takes_runs_on_it_and_the_rest_on_the_next(dispatcher):
    x, weight = torch.randn(3, 64), torch.randn(64)
    with demand_no_fallback():
        out = dispatcher.call("rms_norm", x=x, weight=weight, epsilon=1e-6)
    torch.testing.assert_close(out, torch.nn.functional.rms_norm(x, (64,), weight, 1e-6))
    dispatcher.call("rms_norm", x=x, weight=weight, epsilon=1e-6, offset=0.5)
    routing = {"logits": torch.randn(3, 8), "scoring": "softmax", "renormalize": True, "top_groups": 1}
    routing |= {"weights": torch.empty(3, 2), "ids": torch.empty(3, 2, dtype=torch.int32)}
    for groups in (1, 2, 1):
        dispatcher.call("expert_routing", **routing, groups=groups)
    assert [(each.operator, each.provider, each.count) for each in dispatcher.ledger.records()] == [
        ("rms_norm", "vendor", 1),
        ("rms_norm", "torch", 1),
        ("expert_routing", "vendor", 2),
        ("expert_routing", "torch", 1),
    ]
    reasons = [each.skipped["vendor"] for each in dispatcher.ledger.records() if each.skipped]
    assert "offset is one of 0.0, 1.0" in reasons[0]
    assert "groups is at most 1: with softmax, where scoring is one of softmax" in reasons[1]


def test_a_device_that_computes_otherwise_is_found_by_the_probe(dispatcher, monkeypatch):
    from kunport_runtime.providers.vendor.wheel import installed_wheel

    monkeypatch.setitem(installed_wheel()._functions, "swiglu", lambda x, y: y.zero_())
    dispatcher.call("gated_activation", x=torch.randn(3, 8))
    (record,) = dispatcher.ledger.records()
    assert record.provider == "torch"
    assert "times the tolerance away" in record.skipped["vendor"]


def test_a_broken_rule_takes_the_operator_out_of_service_and_loses_nothing(dispatcher, monkeypatch):
    from kunport_runtime.providers.vendor import norms

    x, weight = torch.randn(3, 64), torch.randn(64)
    expected = dispatcher.call("rms_norm", x=x, weight=weight, epsilon=1e-6)
    monkeypatch.setattr(torch.Tensor, "contiguous", lambda each: each)
    slice_ = torch.randn(3, 128)[:, :64].copy_(x)
    torch.testing.assert_close(dispatcher.call("rms_norm", x=slice_, weight=weight, epsilon=1e-6), expected)
    (failure,) = dispatcher.ledger.failures
    assert failure.reason.startswith("VendorRuleError: norm_contiguous: rows with strides (128, 1)")
    with pytest.raises(VendorRuleError):
        norms.rms_norm(torch.empty(3, 64), slice_, weight, 1e-6, 0.0, "before_weight")

"""Through the vendor's operators, simulated, every contract computes what its reference does, on its own cases."""

from __future__ import annotations

import pytest
from kunport_runtime.operators.check import check
from kunport_runtime.operators.registry import registry
from simulated_wheel import offered, simulated

DTYPES = ("float32", "bfloat16", "float16")

OFFERED = {
    "cache_write",
    "expert_routing",
    "fused_add_rms_norm",
    "fused_experts",
    "gated_activation",
    "gated_rms_norm",
    "int8_matmul",
    "linear",
    "mla_cache_write",
    "mrotary_embedding",
    "paged_attention",
    "quantize_rows",
    "rms_norm",
    "rotary_embedding",
}


@pytest.fixture(scope="module", params=["kunlun_ops", "xtorch_ops"])
def wheel(request):
    with simulated(request.param) as wheel:
        yield wheel


def test_the_wheel_offers_what_it_is_known_for(wheel):
    without = {"kunlun_ops": set(), "xtorch_ops": {"gated_rms_norm"}}[wheel.generation.module]
    assert set(offered(wheel)) == OFFERED - without


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("operator", sorted(OFFERED))
def test_every_case_within_its_limits_is_right(wheel, operator, dtype):
    implementation = offered(wheel).get(operator)
    if implementation is None:
        pytest.skip(f"{wheel} has no {operator}")
    outcomes = list(check(registry.contract(operator), implementation, dtype))
    assert [(each.case, each.fault) for each in outcomes if each.fault] == []
    assert any(not each.skipped for each in outcomes), [each.skipped for each in outcomes]

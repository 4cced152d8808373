"""What holds of every contract: documentation, cases, and that the cases tell a wrong implementation from a right one."""

from __future__ import annotations

import re

import pytest
import torch
from kunport_runtime.operators.binding import bind
from kunport_runtime.operators.check import check
from kunport_runtime.operators.contract import FLOATS, Contract, Option, TensorArgument
from kunport_runtime.operators.draw import Draw
from kunport_runtime.operators.implementation import Implementation
from kunport_runtime.operators.registry import registry

CONTRACTS = [each for each in registry.contracts() if each.family != "own"]
each_contract = pytest.mark.parametrize("contract", CONTRACTS, ids=lambda contract: contract.name)

# What a float32 result cannot tell: `cast` moves a rounding, the lengths are upper bounds for kernels' grids, and
# `greedy` says again what the temperatures say.
INVISIBLE = {"cast", "greedy", "max_query_len", "max_seq_len", "query_start_loc_cpu", "seq_lens_cpu"}

LISTED = {
    "paged_attention", "mla_attention", "cache_write", "mla_cache_write",
    "rms_norm", "fused_add_rms_norm", "layer_norm", "gated_rms_norm",
    "rotary_embedding", "mrotary_embedding", "qk_norm_rope", "qk_norm_rope_cache_write", "gated_activation",
    "expert_routing", "grouped_matmul", "fused_experts", "linear", "int8_matmul", "fp8_matmul", "quantize_rows",
    "sample", "embed_tokens", "short_convolution", "mamba1_scan", "mamba2_scan", "gated_delta_rule", "linear_attention",
    "rg_lru", "rwkv", "mlstm",
}  # fmt: skip


def test_every_operator_that_adapters_use_has_a_contract():
    assert {each.name for each in CONTRACTS} == LISTED


@each_contract
def test_the_documentation_is_complete(contract: Contract):
    title, _, rest = contract.doc.partition("\n")
    assert title.endswith(".")
    assert rest.strip() or len(title) > 60
    for argument in contract.arguments:
        assert argument.meaning, f"{argument.name} is not explained"
        named = argument.like or argument.may_be if isinstance(argument, TensorArgument) else ""
        assert not named or named in contract.tensors
    assert set(contract.tolerance) == set(FLOATS)
    assert all(len(tolerance.source) > 20 for tolerance in contract.tolerance.values())
    for quoted in re.findall(r"`([a-z0-9_]+)`", contract.doc.replace("``", "")):
        assert quoted in LISTED, f"{quoted} is mentioned and does not exist"


@each_contract
def test_its_name_is_that_of_its_file_and_no_other_module_hides_it(contract: Contract):
    import kunport_runtime.operators as operators

    assert registry.contract(contract.name).family == contract.family
    assert callable(getattr(operators, contract.name))


@each_contract
def test_cases_fit_the_contract_and_are_the_same_for_the_same_seed(contract: Contract):
    for dtype in (torch.float32, torch.bfloat16):
        first, second, other = (list(contract.cases(Draw(dtype, seed=seed))) for seed in (3, 3, 4))
        assert len({case.label for case in first}) == len(first)
        for case in first:
            call = bind(contract, case.arguments)
            assert not [limit.refusal(call) for limit in contract.limits if limit.refusal(call)], case.label
            assert call.dtype == str(dtype).removeprefix("torch.")
        same = [_equal(a.arguments, b.arguments) for a, b in zip(first, second, strict=True)]
        differ = [_equal(a.arguments, b.arguments) for a, b in zip(first, other, strict=True)]
        assert all(same)
        assert not any(differ)


@each_contract
def test_outputs_are_poisoned_or_in_place(contract: Contract):
    for case in contract.cases(Draw(torch.float32)):
        for output in contract.outputs:
            tensor = case.arguments[output.name]
            assert isinstance(tensor, torch.Tensor)
            if output.may_be and tensor is case.arguments[output.may_be]:
                continue
            poison = tensor.isnan() if tensor.dtype.is_floating_point else tensor == torch.iinfo(tensor.dtype).min
            assert poison.all(), f"{case.label}: {output.name}"


@each_contract
def test_the_reference_is_right_by_its_own_contract_in_every_dtype(contract: Contract):
    reference = Implementation(contract.name, "torch", contract.reference)
    for dtype in FLOATS:
        outcomes = list(check(contract, reference, dtype))
        assert outcomes
        assert not [outcome for outcome in outcomes if outcome.fault or outcome.skipped]


@each_contract
def test_what_ignores_an_argument_is_found_out(contract: Contract):
    """An implementation that takes another option, or no optional tensor, than it is given is wrong in some case."""
    for argument in contract.arguments:
        if argument.name in INVISIBLE:
            continue
        for other in _alternatives(argument):
            outcomes = list(check(contract, _deaf(contract, argument.name, other), "float32"))
            assert any(outcome.fault for outcome in outcomes), f"{argument.name} = {other!r} makes no difference"


@each_contract
def test_what_writes_too_little_or_into_its_inputs_is_found_out(contract: Contract):
    def idle(**arguments: object) -> None:
        pass

    def careless(**arguments: object) -> None:
        contract.reference(**arguments)
        for name, each in contract.tensors.items():
            tensor = arguments[name]
            if each.role == "reads" and isinstance(tensor, torch.Tensor) and tensor.dtype.is_floating_point:
                tensor.mul_(2)

    for function in (idle, careless):
        outcomes = check(contract, Implementation(contract.name, "mine", function), "float32")
        assert any(outcome.fault for outcome in outcomes)


@each_contract
def test_its_first_dimension_says_whether_there_is_anything_to_do(contract: Contract):
    """The dispatcher runs nobody where there are no tokens, or no rows."""
    for tensor in contract.tensors.values():
        if tensor.role in ("writes", "updates") and tensor.shape[0].name != "slots":
            assert tensor.shape[0].name in ("tokens", "rows")
    names = {each.name for tensor in contract.tensors.values() for each in tensor.shape}
    assert len(names & {"tokens", "rows"}) == 1


def test_a_wrong_last_bit_in_half_precision_is_no_fault_and_a_wrong_percent_is():
    contract = registry.contract("rms_norm")
    for factor, wrong in ((1 + 2**-8, False), (1.05, True)):

        def scaled(factor: float = factor, **arguments: torch.Tensor) -> None:
            contract.reference(**arguments)
            arguments["out"].mul_(factor)

        outcomes = check(contract, Implementation("rms_norm", "mine", scaled), "bfloat16")
        assert any(outcome.fault for outcome in outcomes) is wrong


def _alternatives(argument: TensorArgument | Option) -> list[object]:
    if isinstance(argument, TensorArgument):
        return [None] if argument.optional else []
    if argument.choices:
        return list(argument.choices)
    if argument.kind is bool:
        return [True, False]
    if argument.default in (0, 0.0, 1.0) or argument.name == "dt_max":
        return [argument.default]
    return []


def _deaf(contract: Contract, name: str, value: object) -> Implementation:
    def deaf(**arguments: object) -> None:
        contract.reference(**{**arguments, name: value})

    return Implementation(contract.name, "mine", deaf)


def _equal(first: dict[str, object], second: dict[str, object]) -> bool:
    for name, value in first.items():
        other = second[name]
        if isinstance(value, torch.Tensor) and isinstance(other, torch.Tensor):
            if value.shape != other.shape or not torch.equal(_bytes(value), _bytes(other)):
                return False
        elif value != other:
            return False
    return True


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().view(torch.uint8)

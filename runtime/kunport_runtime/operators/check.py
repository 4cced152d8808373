"""Judges an implementation by its contract: the contract's own cases, compared with the reference."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from kunport_runtime.operators.binding import bind
from kunport_runtime.operators.contract import Case, Contract
from kunport_runtime.operators.draw import Draw
from kunport_runtime.operators.implementation import Implementation
from kunport_runtime.operators.tolerance import Tolerance


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a case showed.

    Attributes:
        case: its label.
        dtype: of the operator in it.
        skipped: the limit of the implementation that the case is beyond; "" where it ran.
        fault: what is wrong; "" where nothing is.
        error: the largest ``|result - reference| / (absolute + relative * |reference|)``: at most 1 is right.
    """

    case: str
    dtype: str
    skipped: str = ""
    fault: str = ""
    error: float = 0.0


def check(
    contract: Contract,
    implementation: Implementation,
    dtype: str,
    device: torch.device | str = "cpu",
    *,
    seed: int = 0,
) -> Iterator[Outcome]:
    """Run the contract's cases in one dtype, one outcome each.

    Args:
        contract: of the operator.
        implementation: what is judged.
        dtype: one of the contract's tolerances.
        device: where it runs.
        seed: of the inputs.
    """
    for case in contract.cases(Draw(getattr(torch, dtype), device, seed)):
        yield _run(contract, implementation, case, dtype)


def _run(contract: Contract, implementation: Implementation, case: Case, dtype: str) -> Outcome:
    call = bind(contract, case.arguments)
    if skipped := implementation.refusal(call):
        return Outcome(case.label, dtype, skipped=skipped)
    expected, actual = copy_arguments(contract, call.arguments), copy_arguments(contract, call.arguments)
    contract.reference(**expected)
    try:
        implementation.load()(**actual)
        _wait(call.device)
    except Exception as error:
        return Outcome(case.label, dtype, fault=f"{type(error).__name__}: {error}")
    largest, worst = 0.0, ""
    changed = {id(actual[name]) for name in contract.changed}
    for name in contract.tensors:
        if actual[name] is None:
            continue
        if id(actual[name]) in changed:
            this = distance(actual[name], expected[name], contract.tolerance[dtype])
        else:
            this = 0.0 if _same(actual[name], call.arguments[name]) else torch.inf
        if not this <= largest:
            largest, worst = this, name
    fault = f"{worst} is {largest:.3g} times the tolerance away" if not largest <= 1 else ""
    return Outcome(case.label, dtype, fault=fault, error=largest)


def copy_arguments(contract: Contract, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments with tensors of their own, of the same layout; those that share memory share it again."""
    copies: dict[tuple[int, tuple[int, ...], tuple[int, ...]], torch.Tensor] = {}
    result: dict[str, Any] = {}
    for name, value in arguments.items():
        if name not in contract.tensors or value is None:
            result[name] = value
            continue
        identity = (value.data_ptr(), tuple(value.shape), value.stride())
        if value.numel() == 0 or identity not in copies:
            copies[identity] = copy_tensor(value)
        result[name] = copies[identity]
    return result


def copy_tensor(tensor: torch.Tensor) -> torch.Tensor:
    """A copy with the same strides; what lies between its rows is NaN, or 0 where there is none."""
    copy = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device)
    if tensor.dtype.is_floating_point and tensor.element_size() > 1:
        torch.as_strided(copy, (copy.untyped_storage().nbytes() // copy.element_size(),), (1,)).fill_(torch.nan)
    copy.copy_(tensor)
    return copy


def distance(actual: torch.Tensor, expected: torch.Tensor, tolerance: Tolerance) -> float:
    """The largest error in units of the tolerance; infinite where a NaN or an infinity is on one side only.

    Integers are right only where they are equal, and numbers of 8 bits where they are no more than one step apart.
    """
    if not actual.dtype.is_floating_point:
        return 0.0 if torch.equal(actual, expected) else torch.inf
    if actual.numel() == 0:
        return 0.0
    if actual.element_size() == 1:
        return 0.0 if _one_step(actual, expected) else torch.inf
    a, e = actual.double(), expected.double()
    same = (a == e) | (a.isnan() & e.isnan())
    allowed = tolerance.absolute + tolerance.relative * e.abs()
    error = torch.where(same, 0.0, (a - e).abs() / allowed).nan_to_num(torch.inf, torch.inf)
    return float(error.max())


def _one_step(actual: torch.Tensor, expected: torch.Tensor) -> bool:
    """Whether bytes that hold sign and magnitude differ by at most one step."""
    a, e = (each.view(torch.uint8).int() for each in (actual, expected))
    close = ((a & 127) - (e & 127)).abs() <= 1
    return bool((close & (((a ^ e) < 128) | ((a | e) & 127 <= 1))).all())


def _same(tensor: torch.Tensor, before: torch.Tensor) -> bool:
    if tensor.dtype.is_floating_point:
        return distance(tensor, before, Tolerance(0.0, 0.0, "")) == 0
    return torch.equal(tensor, before)


def _wait(device: torch.device) -> None:
    """A kernel that fails says so when it is waited for."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)

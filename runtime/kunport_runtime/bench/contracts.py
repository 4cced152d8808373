"""Every case of every contract on this device: the kernels' numbers where they are compiled and not interpreted."""

from collections.abc import Callable, Iterator
from functools import partial

import torch

from kunport_runtime.operators.check import check
from kunport_runtime.operators.draw import Draw
from kunport_runtime.operators.registry import registry
from kunport_runtime.providers.triton.implementations import IMPLEMENTATIONS

DTYPES = ("float32", "bfloat16")


def compilations() -> Iterator[Callable[[], None]]:
    """What compiles the kernels of every case, on tensors of the host."""
    for implementation in IMPLEMENTATIONS:
        contract = registry.contract(implementation.operator)
        for dtype in DTYPES:
            count = sum(1 for _ in contract.cases(Draw(getattr(torch, dtype), "cpu", 0)))
            for index in range(count):
                yield partial(_compile, implementation.operator, dtype, index)


def _compile(operator: str, dtype: str, index: int) -> None:
    implementation = registry.implementations(operator)["triton"]
    cases = registry.contract(operator).cases(Draw(getattr(torch, dtype), "cpu", 0))
    implementation.load()(**next(case for number, case in enumerate(cases) if number == index).arguments)


def report() -> bool:
    """Print a line for each operator and dtype, and one for each fault; whether there was none."""
    right = True
    for implementation in IMPLEMENTATIONS:
        contract = registry.contract(implementation.operator)
        for dtype in DTYPES:
            outcomes = list(check(contract, implementation, dtype, "cuda", seed=torch.seed() % (1 << 30)))
            worst = max(each.error for each in outcomes)
            print(f"{contract.name} {dtype}: {len(outcomes)} cases, error {worst:.2f} of the tolerance", flush=True)
            for each in outcomes:
                if each.fault:
                    right = False
                    print(f"  WRONG {each.case}: {each.fault[:300]}", flush=True)
    return right

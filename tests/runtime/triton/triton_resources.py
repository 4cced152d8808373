"""Prints, as JSON, what kernels take on Hopper, compiled here: first cases, large products, and shipped tunings.

A process of its own, since it replaces Triton's active driver.
"""

import json

import torch
from kunport_runtime.bench import product_trials, state_trials
from kunport_runtime.bench.ahead import compiling_only, resources
from kunport_runtime.bench.attention import Batch
from kunport_runtime.operators.draw import Draw
from kunport_runtime.operators.registry import registry
from kunport_runtime.providers.triton import tuning
from kunport_runtime.providers.triton.implementations import IMPLEMENTATIONS
from kunport_runtime.providers.triton.paged_decode import decode
from kunport_runtime.providers.triton.paged_prefill import prefill

shipped = json.loads((tuning.FOLDER / "nvidia_h200.json").read_text())
with compiling_only() as compiled:
    for implementation in IMPLEMENTATIONS:
        case = next(iter(registry.contract(implementation.operator).cases(Draw(torch.bfloat16, "cpu", 0))))
        implementation.load()(**case.arguments)
    for operator in ("fp8_matmul", "fused_experts", "int8_matmul", "linear"):
        next(product_trials.compilations(operator))()
    for operator in ("mamba2_scan", "gated_delta_rule"):  # prompts, at a served model's sizes
        make, _ = state_trials.FORMS[operator]
        registry.implementations(operator)["triton"].load()(
            **make("cpu", 4, 16), **state_trials.batch_of("cpu", 4, length=4)
        )
    for operator, launch, lengths in (("paged_decode", decode, (1, 64)), ("paged_prefill", prefill, (64, 64))):
        for page in (16, 128):
            entry = min(shipped[operator], key=lambda entry: abs(entry["shape"]["page"] - page))
            with tuning.forced(operator, entry["config"]):
                launch(Batch([lengths] * 2, page=page).arguments("cpu", 0))
            if page == 128:  # wide heads, where the tiles tuned for 128 elements would not fit
                with tuning.forced(operator, entry["config"]):
                    wide = Batch([lengths] * 2, page=page, heads=4, key_heads=4, size=512, value_size=512)
                    launch(wide.arguments("cpu", 0))

for kernel in compiled:
    taken = resources(kernel)
    print(json.dumps([taken.kernel, taken.registers, taken.spilled, taken.shared, taken.warps]))

"""Where the time of a decode step goes: kernels of the device, and parts of vLLM's engine on the host."""

from __future__ import annotations

import cProfile
import gc
import io
import pstats
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

Generate = Callable[[Any, int, int], object]
"""Has an engine answer a full batch of requests: the engine, a seed, tokens an answer."""


def device_parts(engine: Any, generate: Generate) -> list[str]:
    """The kernels of a decode step: those of 33 tokens an answer less those of one."""
    steps = 32
    first, whole = _kernels(engine, generate, 1), _kernels(engine, generate, steps + 1)
    rows = []
    for name, (microseconds, count) in whole.items():
        before, earlier = first.get(name, (0.0, 0))
        rows.append(((microseconds - before) / steps, (count - earlier) / steps, name))
    rows.sort(reverse=True)
    lines = [
        f"device, busy: prompts {sum(each for each, _ in first.values()) / 1e3:.1f} ms, "
        f"a decode step {sum(each for each, _, _ in rows) / 1e3:.3f} ms"
    ]
    lines += [f"{each:9.1f} us a step, {count:6.1f} x {name[:110]}" for each, count, name in rows[:18]]
    prompts = sorted(first.items(), key=lambda row: -row[1][0])[:9]
    return lines + [f"{each / 1e3:9.1f} ms in prompts, {count} x {name[:110]}" for name, (each, count) in prompts]


def _kernels(engine: Any, generate: Generate, tokens: int) -> dict[str, tuple[float, int]]:
    """Kernel -> its microseconds and launches."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as found:
        generate(engine, 5, tokens)
        torch.cuda.synchronize()
    return {each.key: (each.self_device_time_total, each.count) for each in found.key_averages()}


def device_gaps(engine: Any, generate: Generate, tokens: int) -> list[str]:
    """When the device waits: before the first kernel, between two, and after the last, while `tokens` are answered."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as found:
        begin = time.time_ns()
        generate(engine, 5, tokens)
        end = time.time_ns()
        torch.cuda.synchronize()
    kernels = sorted(
        (each.start_ns(), each.start_ns() + each.duration_ns())
        for each in found.profiler.kineto_results.events()
        if str(each.device_type()).endswith("CUDA")
    )
    waits: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    reached = kernels[0][0]
    for start, stop in kernels:
        if start > reached:
            kind = next(
                (f"up to {most} us" for most in (3, 10, 50, 200, 1000) if start - reached <= 1e3 * most), "more"
            )
            waits[kind] += start - reached
            counts[kind] += 1
        reached = max(reached, stop)
    cells = ", ".join(f"{kind} {waits[kind] / 1e6:.1f} ({counts[kind]})" for kind in waits)
    return [
        f"device, ms of {(end - begin) / 1e6:.0f}: idle before the first kernel {(kernels[0][0] - begin) / 1e6:.1f}, "
        f"after the last {(end - reached) / 1e6:.1f}, between two, by length: {cells}"
    ]


def collections(engine: Any, generate: Generate, tokens: int) -> list[str]:
    """What Python's garbage collector takes while `tokens` are answered, by generation."""
    spent: Counter[int] = Counter()
    counts: Counter[int] = Counter()
    begun = [0.0]

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            begun[0] = time.perf_counter()
        else:
            spent[info["generation"]] += time.perf_counter() - begun[0]
            counts[info["generation"]] += 1

    gc.callbacks.append(note)
    generate(engine, 8, tokens)
    gc.callbacks.remove(note)
    cells = ", ".join(f"{each}: {1e3 * spent[each]:.1f} ({counts[each]})" for each in sorted(spent))
    return [f"garbage collector, ms by generation: {cells}; {len(gc.get_objects())} objects"]


def host_functions(engine: Any, generate: Generate, tokens: int, count: int = 45) -> list[str]:
    """The functions that take most of the host's time, by Python's profiler, which makes small ones look larger."""
    profiler = cProfile.Profile()
    profiler.enable()
    generate(engine, 9, tokens)
    profiler.disable()
    lines = []
    for order in ("tottime", "cumulative"):
        text = io.StringIO()
        pstats.Stats(profiler, stream=text).strip_dirs().sort_stats(order).print_stats(count)
        lines += [f"host functions by {order}:", *(line for line in text.getvalue().splitlines() if line.strip())][4:]
    return lines


def host_parts(engine: Any, generate: Generate) -> list[str]:
    """Milliseconds of each part of a step, measured by a clock around it, in steps of a full batch of decodes."""
    spent: dict[str, float] = Counter()
    parts = _parts(engine)
    for owner, name in parts:
        _clock(owner, name, spent)
    core = engine.llm_engine.engine_core.engine_core
    steps: list[dict[str, float]] = []
    step = core.step_fn

    def counted() -> Any:
        spent.clear()
        begin = time.perf_counter()
        result = step()
        steps.append({**spent, "step": time.perf_counter() - begin})
        return result

    core.step_fn = counted
    begin = time.perf_counter()
    generate(engine, 6, 64)
    wall = time.perf_counter() - begin
    core.step_fn = step
    for owner, name in parts:
        delattr(owner, name)
    decodes = steps[20:60]  # prompts are behind them, the last tokens are not reached
    means = {name: sum(each.get(name, 0.0) for each in decodes) / len(decodes) for name in decodes[0]}
    cells = ", ".join(f"{name} {1e3 * mean:.2f}" for name, mean in means.items())
    return [f"host, ms a step: {cells}", f"{len(steps)} steps in {wall:.3f} s"]


def _parts(engine: Any) -> list[tuple[Any, str]]:
    core = engine.llm_engine.engine_core.engine_core
    runner = core.model_executor.driver_worker.worker.model_runner
    inside = ("_update_states", "_prepare_inputs", "_prepare_input_ids", "_get_slot_mappings")
    inside += ("_determine_batch_execution_and_padding", "_build_attention_metadata", "_preprocess")
    inside += ("_model_forward", "_sample", "_bookkeeping_sync")
    return [
        (core.scheduler, "schedule"),
        (core.scheduler, "update_from_output"),
        (core.model_executor, "execute_model"),
        (core.model_executor, "sample_tokens"),
        *((runner, name) for name in inside),
        (runner.model, "compute_logits"),
        (runner.prepare_inputs_event, "synchronize"),
        (engine.llm_engine.output_processor, "process_outputs"),
    ]


def _clock(owner: Any, name: str, spent: dict[str, float]) -> None:
    """Have a method add the time that it takes to `spent`."""
    method = getattr(owner, name)

    def clocked(*arguments: Any, **options: Any) -> Any:
        begin = time.perf_counter()
        try:
            return method(*arguments, **options)
        finally:
            spent[name] += time.perf_counter() - begin

    setattr(owner, name, clocked)


def go_the_long_way(engine: Any) -> None:
    """Leave kunport's decode steps aside, in the scheduler and in the model runner."""
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner

    core = engine.llm_engine.engine_core.engine_core
    core.scheduler._plain_engine = False
    runner = core.model_executor.driver_worker.worker.model_runner
    runner._same_batch, runner.step_graphs = lambda _: False, {}
    for name in ("_prepare_inputs", "_prepare_input_ids", "_bookkeeping_sync"):
        setattr(runner, name, getattr(GPUModelRunner, name).__get__(runner))

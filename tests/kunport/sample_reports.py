"""A complete report that passes, for tests that change one thing in it."""

from __future__ import annotations

from kunport.description import Description
from kunport.description.findings import Line
from kunport.validation.limits import Limits
from kunport.validation.report import Batch, Engine, GraphCheck, Memory, RanClass, Report, Stage, Worst
from kunport_codegen.graph import Location


def sample_report() -> Report:
    return Report(
        adapter="adapters/olmo2",
        checkpoint="checkpoints/olmo2",
        architecture="Olmo2ForCausalLM",
        model_type="olmo2",
        dtype="float32",
        seed=0,
        prompt_kind="random",
        prompt_lengths=[5, 3],
        tokens=4,
        limits=Limits(),
        parameters=722_048,
        stages=[Stage("reference", "load", "passed", 1.0, "Olmo2ForCausalLM"), Stage("engine", "load", "passed", 4.0)],
        engine=Engine(
            RanClass("kunport_adapters.x.model", "Olmo2ForCausalLM", "adapters/olmo2/model.py", is_adapter=True),
            kv_cache_bytes=256 << 20,
            page_size=32,
            context=9,
        ),
        batches=[_batch(1), _batch(2)],
        graph=GraphCheck(positions=8, max_absolute=1e-7, max_relative=2e-8),
        versions={"kunport": "0.1.0", "vllm": "0.32.0"},
        digests={"checkpoint": "ab" * 32, "adapter": "cd" * 32},
        hardware={"device": "CPU", "cores": "2"},
        seconds=30.0,
    )


def _batch(size: int) -> Batch:
    return Batch(
        size=size,
        compared=100 * size,
        not_finite=0,
        max_error=4e-6,
        mean_error=1e-6,
        prompt_error=4e-6,
        decode_error=2e-6,
        worst=Worst(0, 3, 17, -2.5, -2.500004),
        error_by_position=[None, 1e-6, 0.0, 4e-6, 2e-6],
        greedy_equal=4 * size,
        greedy_total=4 * size,
        ties=0,
        mismatches=[],
        repeat_differs=[],
        memory=Memory(live_bytes=120_000 * size, resident_bytes=900 << 20),
        seconds=0.2,
        tokens_per_second=20.0 * size,
    )


def sample_description() -> Description:
    where = Location("modeling_olmo2.py", 12)
    return Description(
        architecture="Olmo2ForCausalLM",
        model_type="olmo2",
        layers=2,
        parameters=722_048,
        sources={"modeling_olmo2.py": "ef" * 32},
        groups={"norms": [Line("RMS norm, after the branch", where, (0, 1), usual=False)]},
        unknowns=[],
        guards=["config.hidden_size is 128"],
        notes=["A branch was not taken."],
    )

"""The short way for decode steps schedules, and answers, what vLLM's own scheduler does."""

import json
import random
from collections import Counter

import pytest
import torch
from kunport_runtime.engine.exhaustion import AsyncScheduler, Scheduler
from kunport_runtime.engine.steady import SteadyBatch
from vllm import SamplingParams
from vllm.engine.arg_utils import EngineArgs
from vllm.v1.core.sched.async_scheduler import AsyncScheduler as VllmAsyncScheduler
from vllm.v1.core.sched.scheduler import Scheduler as VllmScheduler
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec, SlidingWindowSpec
from vllm.v1.outputs import ModelRunnerOutput
from vllm.v1.request import Request, RequestStatus
from vllm.v1.structured_output import StructuredOutputManager

pytestmark = pytest.mark.engine

PAGE, END = 4, 2
LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "vocab_size": 64,
    "max_position_embeddings": 64,
    "eos_token_id": END,
}


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    folder = tmp_path_factory.mktemp("llama")
    (folder / "config.json").write_text(json.dumps(LLAMA))
    arguments = EngineArgs(
        model=str(folder), skip_tokenizer_init=True, dtype="float32", max_model_len=48, max_num_seqs=6,
        max_num_batched_tokens=64, block_size=16, enable_prefix_caching=False, kv_cache_memory_bytes=1 << 24,
    )  # fmt: skip
    config = arguments.create_engine_config()
    config.cache_config.block_size = PAGE
    config.cache_config.num_gpu_blocks = 40
    return config


def scheduler(config, kind, blocks, windows):
    """A scheduler of a model with a group of layers for each of `windows`, 0 for full attention."""
    config.scheduler_config.async_scheduling = issubclass(kind, VllmAsyncScheduler)
    sizes = {"block_size": PAGE, "num_kv_heads": 2, "head_size": 32, "dtype": torch.float32}
    specs = [
        SlidingWindowSpec(sliding_window=each, **sizes) if each else FullAttentionSpec(**sizes) for each in windows
    ]
    groups = [KVCacheGroupSpec([f"layer {i}"], spec) for i, spec in enumerate(specs)]
    cache = KVCacheConfig(num_blocks=blocks, kv_cache_tensors=[], kv_cache_groups=groups)
    return kind(
        vllm_config=config, kv_cache_config=cache, structured_output_manager=StructuredOutputManager(config),
        block_size=PAGE,
    )  # fmt: skip


def serve(scheduler, seed):
    """What is scheduled and answered, step by step, while requests come, end by themselves and are cancelled.

    A batch is answered when the next one is scheduled, where the scheduler can do that; its tokens follow from the
    request's name and from how many it has.
    """
    draw = random.Random(seed)
    ahead = isinstance(scheduler, VllmAsyncScheduler)
    coming = [(f"request {i}", draw.randint(1, 20), draw.randint(1, 24), draw.random() < 0.5) for i in range(12)]
    given, running, steps, answers = Counter(), [], [], []
    while coming or running or scheduler.has_requests():
        assert len(steps) < 500
        while coming and draw.random() < 0.4:
            name, length, most, ends = coming.pop()
            sampling = SamplingParams(temperature=0, max_tokens=most, ignore_eos=not ends)
            sampling.update_from_generation_config({}, END)
            scheduler.add_request(Request(name, list(range(3, 3 + length)), sampling, None))
        if draw.random() < 0.02 and scheduler.running:
            scheduler.finish_requests(scheduler.running[-1].request_id, RequestStatus.FINISHED_ABORTED)
        if scheduler.has_requests():
            output = scheduler.schedule()
            steps.append(described(output))
            if output.total_num_scheduled_tokens:
                running.append((output, sampled(scheduler, output, given)))
        if running and (len(running) > ahead or not output.total_num_scheduled_tokens):
            answers.append(answered(scheduler, *running.pop(0)))
    return steps, answers, scheduler.kv_cache_manager.block_pool.get_num_free_blocks()


def sampled(scheduler, output, given):
    """A token for each request that has no more to read."""
    tokens = []
    for name in output.num_scheduled_tokens:
        reads = scheduler.requests[name].is_prefill_chunk
        tokens.append([] if reads else [random.Random(f"{name} {given[name]}").randrange(20)])
        given[name] += not reads
    return tokens


def answered(scheduler, output, tokens):
    names = list(output.num_scheduled_tokens)
    rows = {name: row for row, name in enumerate(names)}
    result = ModelRunnerOutput(req_ids=names, req_id_to_index=rows, sampled_token_ids=tokens)
    found = [each for one in scheduler.update_from_output(output, result).values() for each in one.outputs]
    return [(each.request_id, each.new_token_ids, each.finish_reason, each.stop_reason) for each in found]


def described(output):
    cached = output.scheduled_cached_reqs
    return {
        "new": [(each.req_id, each.block_ids, each.num_computed_tokens) for each in output.scheduled_new_reqs],
        "again": (cached.req_ids, cached.resumed_req_ids, cached.all_token_ids),
        "blocks": cached.new_block_ids,
        "lengths": (cached.num_computed_tokens, cached.num_output_tokens),
        "tokens": (output.num_scheduled_tokens, output.total_num_scheduled_tokens),
        "ended": output.finished_req_ids,
    }


@pytest.mark.parametrize(("ours", "vllm"), [(Scheduler, VllmScheduler), (AsyncScheduler, VllmAsyncScheduler)])
@pytest.mark.parametrize("blocks", [80, 14])
def test_the_short_way_schedules_and_answers_as_vllm_does(config, ours, vllm, blocks, monkeypatch):
    taken = Counter()
    for name in ("next_step", "is_answered"):
        monkeypatch.setattr(SteadyBatch, name, _counted(taken, name, getattr(SteadyBatch, name)))
    for seed in range(8):
        short, long = (scheduler(config, kind, blocks, [0]) for kind in (ours, vllm))
        _count(taken, short, "_step_of", "_take_tokens")
        assert serve(short, seed) == serve(long, seed), seed
    assert min(taken["_step_of"], taken["_take_tokens"], taken["next_step"], taken["is_answered"]) > 50


def test_windows_give_their_blocks_back_a_page_later_and_nothing_else_changes(config):
    for seed in range(4):
        found = []
        for kind in (AsyncScheduler, VllmAsyncScheduler):
            steps, answers, free = serve(scheduler(config, kind, 400, [0, 6]), seed)
            for step in steps:
                step["new"] = [(name, computed) for name, _, computed in step["new"]]
                step["blocks"] = [each and [len(group) for group in each] for each in step["blocks"]]
            found.append((steps, answers, free))
        assert found[0] == found[1], seed


def _count(calls, owner, *names):
    """Count how often methods are called."""
    for name in names:
        setattr(owner, name, _counted(calls, name, getattr(owner, name)))


def _counted(calls, name, method):
    def counted(*arguments):
        result = method(*arguments)
        calls[name] += result is not False
        return result

    return counted

"""Serves random models on an accelerator: are the tokens right, how fast is it, and what takes the time.

KUNPORT_DEVICE=cuda python tools/accelerator.py [STAGE ...] [--seconds 300] [--output DIR] [--adapter DIR]

Every stage runs in a process of its own with a time limit; of one that fails the end of its output is printed. The
tiny stages run at once and are held against the torch references of the same dtype, the others one after the other.
Weights are random, and made here: the large model's by vLLM, whose numbers are so small that answers say nothing.

tiny-DTYPE-torch, -eager, -graphs   greedy tokens of a tiny Llama by references (and by vLLM's own way through a step),
                                    by kernels, by kernels in graphs
truth                               how far the tiny stages' log-probabilities are from float32's by Transformers, over
                                    how far Transformers' own in bfloat16 are
eager, graphs, served               a Llama of 1.2 billion parameters in bfloat16, 256 requests of 256 tokens in and
                                    128 out: output tokens a second, warm; `served` in a process beside the caller's
workers, apart                      the same with the worker in a process of its own; `apart`: and the engine in a third
graphs-64, graphs-128               the same at pages of 64 and 128
adapter, transformers               the same by the adapter in DIR, and by vLLM's Transformers backend
steps, steps-64                     where a step's time goes: kernels of the device and its waits, parts and functions
                                    of the host, the garbage collector
long                                the parts of the host without kunport's short way for decode steps
probe                               how long a first start takes that tries every kernel
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from step_parts import collections, device_gaps, device_parts, go_the_long_way, host_functions, host_parts

TINY = [f"tiny-{dtype}-{how}" for dtype in ("float32", "bfloat16") for how in ("torch", "eager", "graphs")]
LARGE = ["truth", "graphs", "graphs-64", "graphs-128", "adapter", "transformers", "eager", "served", "workers", "apart"]
LARGE += ["steps", "long", "probe"]
_LIMIT = 150  # seconds of a stage
_COMMON = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_LOGGING_LEVEL": "INFO",
    "VLLM_ALLOW_INSECURE_SERIALIZATION": "1",  # of functions that ask a model something
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
    "KUNPORT_OPS_POLICY": "probe = false",
}
_LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_act": "silu",
    "rms_norm_eps": 1e-5,
    "rope_theta": 500000.0,
    "max_position_embeddings": 4096,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_SIZES = {
    "tiny": {"hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2}
    | {"head_dim": 64, "intermediate_size": 512, "vocab_size": 1024, "tie_word_embeddings": False},
    "large": {"hidden_size": 2048, "num_hidden_layers": 16, "num_attention_heads": 32, "num_key_value_heads": 8}
    | {"head_dim": 64, "intermediate_size": 8192, "vocab_size": 128256, "tie_word_embeddings": True},
}
_REQUESTS, _IN, _OUT = 256, 256, 128


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stages", nargs="*", default=[*TINY, *LARGE])
    parser.add_argument("--seconds", type=int, default=300, help="of all stages together")
    parser.add_argument("--output", type=Path, default=Path("build/accelerator"))
    parser.add_argument("--adapter", default="adapters", help="folder with the adapter of stage `adapter`")
    parser.add_argument("--job", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    if options.job:
        result = _truth(options.output) if options.stages[0] == "truth" else _job(options.stages[0], options.output)
        (options.output / f"{options.stages[0]}.json").write_text(json.dumps(result))
        if os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] == "0":
            os._exit(0)  # an engine takes its time to end
        return 0
    end = time.monotonic() + options.seconds
    tiny = [stage for stage in options.stages if stage.startswith("tiny")]
    started = [_start(stage, options) for stage in tiny]
    failed = [_finish(*each, end, options.output) for each in started].count(False)
    _compare(tiny, options.output)
    for stage in (stage for stage in options.stages if stage not in tiny):
        failed += not _finish(*_start(stage, options), end, options.output)
    return min(failed, 1)


def _start(stage: str, options: argparse.Namespace) -> tuple[str, subprocess.Popen[bytes], float]:
    output = options.output
    command = [sys.executable, "-u", __file__, stage, "--job", "--output", str(output)]
    environment = os.environ | _COMMON | {"KUNPORT_CACHE": str(output / f"cache-{stage}")}
    if stage.endswith("-torch"):
        environment["KUNPORT_DISABLE_CUSTOM_OPS"] = "1"
    if stage in ("served", "apart"):
        environment["VLLM_ENABLE_V1_MULTIPROCESSING"] = "1"
    if stage == "probe":
        del environment["KUNPORT_OPS_POLICY"]
    if stage == "adapter":
        environment["KUNPORT_ADAPTER_PATH"] = options.adapter
    with (output / f"{stage}.log").open("wb") as log:
        return stage, subprocess.Popen(command, env=environment, stdout=log, stderr=log), time.monotonic()


def _finish(stage: str, process: subprocess.Popen[bytes], started: float, end: float, output: Path) -> bool:
    """Wait for a stage and print what it found; False where it found nothing."""
    limit = min(started + _LIMIT, end)
    try:
        code: int | str = process.wait(max(limit - time.monotonic(), 1))
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        code = "out of time"
    print(f"== {stage}: {'done' if code == 0 else f'FAILED ({code})'}, {time.monotonic() - started:.0f} s", flush=True)
    if code != 0:
        lines = (output / f"{stage}.log").read_text(errors="replace").splitlines()
        faults = [line for line in lines if ("out of service" in line or "Error" in line) and "base.py" not in line]
        print(
            "\n".join([*(line[:300] for line in faults[:6]), "...", *(line[:220] for line in lines[-22:])]), flush=True
        )
        return False
    for line in json.loads((output / f"{stage}.json").read_text())["lines"]:
        print("  ", line[:500], flush=True)
    return True


def _compare(stages: list[str], output: Path) -> None:
    """Print how many answers equal those of the references, and how far log-probabilities are off before they part."""
    found = {stage: json.loads(path.read_text()) for stage in stages if (path := output / f"{stage}.json").is_file()}
    for stage, result in found.items():
        reference = found.get("-".join([*stage.split("-")[:2], "torch"]))
        if reference is None or reference is result:
            continue
        equal, error = 0, 0.0
        for (tokens, scores), (other, others) in zip(result["answers"], reference["answers"], strict=True):
            same = next(
                (i for i, pair in enumerate(zip(tokens, other, strict=True)) if pair[0] != pair[1]), len(tokens)
            )
            equal += same == len(tokens)
            error = max([error, *(abs(a - b) for a, b in zip(scores[:same], others[:same], strict=True))])
        print(f"== {stage} against references: {equal} of {len(result['answers'])} answers equal, error {error:.2e}")


def _job(stage: str, output: Path) -> dict[str, Any]:
    if stage.startswith("tiny") or stage == "probe":
        return _tiny(stage, output)
    begin = time.perf_counter()
    page = int(stage.partition("-")[2] or 16)
    executor = "mp" if stage in ("workers", "apart") else "uni"
    implementation = "transformers" if stage == "transformers" else "auto"
    engine = _engine(
        "large", output, "bfloat16", eager=stage == "eager", page=page, executor=executor, implementation=implementation
    )
    lines = [f"started in {time.perf_counter() - begin:.0f} s", *engine.apply_model(_class_of)]
    if stage == "long":
        go_the_long_way(engine)
    _generate(engine, 0, _OUT)
    engine.collective_rpc("kunport_operators", kwargs={"clear": True})
    lines += _rates(engine)
    if stage.startswith("steps"):
        lines += device_gaps(engine, _generate, _OUT) + collections(engine, _generate, _OUT)
        lines += host_parts(engine, _generate) + device_parts(engine, _generate)
        return {"lines": lines + host_functions(engine, _generate, 64)}
    if stage == "long":
        return {"lines": lines + host_parts(engine, _generate)}
    return {"lines": lines + _repeated_steps(engine) + _account(engine)}


def _repeated_steps(engine: Any) -> list[str]:
    """Whether whole steps as graphs answer what the same steps do kernel by kernel; where the engine can be reached."""
    if not hasattr(engine.llm_engine.engine_core, "engine_core"):
        return []
    runner = engine.llm_engine.engine_core.engine_core.model_executor.driver_worker.worker.model_runner
    answers, runner.step_graphs = _generate(engine, 3, 32), {}
    same = sum(each == other for each, other in zip(answers, _generate(engine, 3, 32), strict=True))
    return [f"{same} of {len(answers)} answers are the same without graphs of whole steps"]


def _class_of(model: Any) -> str:
    return f"model: {type(model).__module__}.{type(model).__name__}"


def _rates(engine: Any) -> list[str]:
    """Output tokens a second of nine runs, and how long the prompts take."""
    rates = []
    for seed in range(10, 19):
        begin = time.perf_counter()
        _generate(engine, seed, _OUT)
        rates.append(_REQUESTS * _OUT / (time.perf_counter() - begin))
    begin = time.perf_counter()
    _generate(engine, 7, 1)
    prompts = time.perf_counter() - begin
    step = (_REQUESTS * _OUT / sorted(rates)[4] - prompts) / (_OUT - 1)
    return [
        f"output tokens/s: {', '.join(f'{rate:,.0f}' for rate in rates)}; median {sorted(rates)[4]:,.0f}",
        f"prompts and the first token alone: {prompts:.3f} s; a decode step: {1e3 * step:.2f} ms",
    ]


def _tiny(stage: str, output: Path) -> dict[str, Any]:
    from vllm import SamplingParams

    dtype = "bfloat16" if stage == "probe" else stage.split("-")[1]
    begin = time.perf_counter()
    engine = _engine("tiny", output, dtype, eager=not stage.endswith("graphs"))
    if stage.endswith("-torch"):
        go_the_long_way(engine)
    lines = [f"started in {time.perf_counter() - begin:.0f} s"]
    sampling = SamplingParams(temperature=0, max_tokens=24, ignore_eos=True, detokenize=False, logprobs=0)
    prompts = [{"prompt_token_ids": tokens} for tokens in _tiny_prompts()]
    answers = []
    for request in engine.generate(prompts, sampling, use_tqdm=False):
        tokens = list(request.outputs[0].token_ids)
        scores = [step[token].logprob for step, token in zip(request.outputs[0].logprobs, tokens, strict=True)]
        answers.append((tokens, scores))
    kinds = len({token for tokens, _ in answers for token in tokens})
    sampling = SamplingParams(temperature=0, max_tokens=24, ignore_eos=True, detokenize=False)
    again = [list(each.outputs[0].token_ids) for each in engine.generate(prompts, sampling, use_tqdm=False)]
    same = sum(tokens == other for (tokens, _), other in zip(answers, again, strict=True))
    lines += [f"{kinds} kinds of tokens; without log-probabilities {same} of {len(again)} answers are the same"]
    return {"lines": [*lines, *_account(engine)], "answers": answers}


def _tiny_prompts() -> list[list[int]]:
    draw = random.Random(0)
    return [draw.choices(range(3, 1000), k=length) for length in (1, 5, 16, 17, 33, 70, 130)]


def _truth(output: Path) -> dict[str, Any]:
    """Hold every tiny stage against Transformers in float32, each on the tokens that the stage answered."""
    import torch
    from transformers import AutoModelForCausalLM

    folder = _model("tiny", output)
    models = [
        AutoModelForCausalLM.from_pretrained(folder, dtype=each).cuda() for each in (torch.float32, torch.bfloat16)
    ]
    lines = []
    for stage in TINY:
        if not (path := output / f"{stage}.json").is_file():
            continue
        errors: list[list[torch.Tensor]] = [[], []]
        for prompt, (tokens, scores) in zip(_tiny_prompts(), json.loads(path.read_text())["answers"], strict=True):
            ids = torch.tensor([prompt + tokens], device="cuda")
            with torch.no_grad():
                exact, rounded = (
                    model(ids)
                    .logits[0, len(prompt) - 1 : -1]
                    .double()
                    .log_softmax(-1)
                    .gather(1, ids[0, len(prompt) :, None])
                    for model in models
                )
            errors[0].append(torch.tensor(scores, device="cuda").double() - exact[:, 0])
            errors[1].append((rounded - exact)[:, 0])
        ours, theirs = (torch.cat(each) for each in errors)
        ratio = float(ours.norm() / theirs.norm())
        lines.append(
            f"{stage}: root mean square {float(ours.square().mean().sqrt()):.2e}, largest {float(ours.abs().max()):.2e}"
            f"; Transformers in bfloat16 {float(theirs.square().mean().sqrt()):.2e}, {float(theirs.abs().max()):.2e}; "
            f"ratio {ratio:.3f}"
        )
    return {"lines": lines}


def _model(size: str, output: Path) -> Path:
    """A folder with a model's configuration, and the tiny one's weights."""
    folder = output / f"model-{size}-{os.getpid()}"
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(_LLAMA | _SIZES[size]))
    if size == "tiny":
        _make_weights(folder)
    return folder


def _engine(
    size: str,
    output: Path,
    dtype: str,
    eager: bool,
    page: int = 16,
    executor: str = "uni",
    implementation: str = "auto",
) -> Any:
    from vllm import LLM

    folder, large = _model(size, output), size == "large"
    sizes = [1, 2, 4, 8, 16, *range(32, _REQUESTS + 1, 32)] if large else [1, 4, 8]
    return LLM(
        model=str(folder),
        skip_tokenizer_init=True,
        load_format="dummy" if large else "auto",
        dtype=dtype,
        model_impl=implementation,
        enforce_eager=eager,
        max_model_len=512,
        max_num_seqs=_REQUESTS if large else 8,
        max_num_batched_tokens=8192 if large else 512,
        enable_prefix_caching=False,
        block_size=page,
        distributed_executor_backend=executor,
        kv_cache_memory_bytes=(8 << 30) if large else (256 << 20),
        **({} if eager else {"compilation_config": {"cudagraph_capture_sizes": sizes}}),
    )


def _make_weights(folder: Path) -> None:
    """Weights with which attention and MLP say as much as the embedding: float32, the same whenever they are made."""
    import torch
    from safetensors.torch import save_file

    sizes = _SIZES["tiny"]
    hidden, middle, vocab = sizes["hidden_size"], sizes["intermediate_size"], sizes["vocab_size"]
    query, key = (sizes[f"num_{kind}_heads"] * sizes["head_dim"] for kind in ("attention", "key_value"))
    shapes = {"model.embed_tokens": (vocab, hidden), "lm_head": (vocab, hidden)}
    for layer in (f"model.layers.{index}" for index in range(sizes["num_hidden_layers"])):
        shapes |= {f"{layer}.self_attn.{name}_proj": (key, hidden) for name in "kv"}
        shapes |= {f"{layer}.self_attn.q_proj": (query, hidden), f"{layer}.self_attn.o_proj": (hidden, query)}
        shapes |= {f"{layer}.mlp.{name}_proj": (middle, hidden) for name in ("gate", "up")}
        shapes |= {f"{layer}.mlp.down_proj": (hidden, middle)}
        shapes |= {f"{layer}.{name}_layernorm": (hidden,) for name in ("input", "post_attention")}
    draw = torch.Generator().manual_seed(0)
    weights = {}
    for name, shape in {**shapes, "model.norm": (hidden,)}.items():
        numbers = torch.randn(shape, generator=draw)
        weights[f"{name}.weight"] = 1 + 0.1 * numbers if len(shape) == 1 else 1.5 * shape[1] ** -0.5 * numbers
    weights["model.embed_tokens.weight"] *= 10
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def _generate(engine: Any, seed: int, tokens: int) -> list[list[int]]:
    from vllm import SamplingParams

    draw = random.Random(seed)
    prompts = [{"prompt_token_ids": draw.choices(range(3, 128000), k=_IN)} for _ in range(_REQUESTS)]
    sampling = SamplingParams(temperature=0, max_tokens=tokens, ignore_eos=True, detokenize=False)
    answers = engine.generate(prompts, sampling, use_tqdm=False)
    if sum(len(answer.outputs[0].token_ids) for answer in answers) != _REQUESTS * tokens:
        raise RuntimeError("Some requests ended early.")
    return [list(answer.outputs[0].token_ids) for answer in answers]


def _account(engine: Any) -> list[str]:
    """Who ran what: a line a provider, and one for each reason why another did not."""
    counts: Counter[tuple[str, str]] = Counter()
    reasons: Counter[str] = Counter()
    for record in engine.collective_rpc("kunport_operators")[0]:
        counts[record["provider"], record["operator"]] += record["count"]
        for provider, reason in record["skipped"].items():
            reasons[f"{provider} did not run {record['operator']}: {reason}"] += record["count"]
    providers = sorted({provider for provider, _ in counts})
    lines = [
        f"{each}: {', '.join(f'{name} {count}' for (whose, name), count in counts.items() if whose == each)}"
        for each in providers
    ]
    return lines + [
        f"{count} x {reason}" for reason, count in reasons.most_common(5) if "no implementation" not in reason
    ]


if __name__ == "__main__":
    sys.exit(main())

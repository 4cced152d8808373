"""Serves the first slice of architectures through each provider of operators, and prints a table.

python tools/providers.py [MODEL ...] [--providers torch triton vendor] [--tokens 6] [--output DIR]

Each model is tiny with random weights, its adapter generated. Greedy tokens are held against those of Transformers'
own model. `triton` runs interpreted, and strictly: an operator that has a Triton kernel runs on it or the engine stops.
`vendor` runs on the simulator of its operators. A row passes where all tokens are equal and the provider ran something
and nothing of it was taken out of service.

Columns: tokens equal of those compared, the share of calls that the provider ran, the operators that it ran, and those
that torch did; `strict` is what would have stopped the engine.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

from slice import SLICE

_COMMON = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # the account of operators is in this process
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_NO_USAGE_STATS": "1",
    "TORCHDYNAMO_DISABLE": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
}
_LENGTHS = (5, 21)  # of prompts: within a page, and beyond one
_ROW = "{:12} {:9} {:7} {:>7} {:>6} {:>8}  {}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=SLICE)
    parser.add_argument("--providers", nargs="+", default=["torch", "triton", "vendor"])
    parser.add_argument("--tokens", type=int, default=6, help="of each answer")
    parser.add_argument("--output", type=Path, default=Path("build/providers"))
    parser.add_argument("--job", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.job:
        _job(options)
        return 0
    os.environ |= _COMMON
    options.output.mkdir(parents=True, exist_ok=True)
    _make(options.models, options.output)
    _job(argparse.Namespace(**vars(options) | {"providers": ["transformers"]}))
    print(_ROW.format("model", "provider", "verdict", "greedy", "share", "seconds", "operators"), flush=True)
    passed = []
    for provider in options.providers:
        command = [sys.executable, __file__, *options.models, "--job", "--providers", provider]
        command += ["--tokens", str(options.tokens), "--output", str(options.output)]
        subprocess.run(command, env=os.environ | _variables(provider, options.output))
        passed += [_row(model, provider, options.output) for model in options.models]
    print(f"{sum(passed)} of {len(passed)} passed")
    return 0 if all(passed) else 1


def _make(models: list[str], output: Path) -> None:
    """Checkpoints and adapters."""
    import kunport

    for model in models:
        checkpoint = kunport.tiny(model, output / "checkpoints" / model)
        kunport.generate_adapter(kunport.analyze(checkpoint), output / "adapters")


def _variables(provider: str, output: Path) -> dict[str, str]:
    """The environment that a provider serves in."""
    variables = {"KUNPORT_ADAPTER_PATH": str((output / "adapters").resolve())}
    if provider == "vendor":
        return variables | {"KUNPORT_DEVICE": "kunlun", "KUNPORT_SIMULATOR": "1"}
    if provider == "triton":
        variables |= {"TRITON_INTERPRET": "1", "KUNPORT_OPS_POLICY": _strict_policy()}
    return variables | {"KUNPORT_DEVICE": "cpu"}


def _strict_policy() -> str:
    from kunport_runtime.operators.registry import registry

    kernels = [each.name for each in registry.contracts() if "triton" in registry.implementations(each.name)]
    return 'order = ["triton", "torch"]\n' + "".join(f"[operators.{name}]\nstrict = true\n" for name in kernels)


def _job(options: argparse.Namespace) -> None:
    """Serve every model by one provider, each in a fork of a process that has imported everything once."""
    (provider,) = options.providers
    import transformers.modeling_utils  # noqa: F401

    answer = _transformers
    if provider != "transformers":
        import vllm.entrypoints.llm  # noqa: F401

        answer = _serve
    for model in options.models:
        path = _answers(model, provider, options.output)
        path.unlink(missing_ok=True)
        if not (child := os.fork()):
            begin = time.monotonic()
            try:
                found = answer(str(options.output / "checkpoints" / model), options.tokens)
                path.write_text(json.dumps(found | {"seconds": time.monotonic() - begin}), encoding="utf-8")
            except BaseException:
                traceback.print_exc()
            os._exit(0)
        os.waitpid(child, 0)


def _answers(model: str, provider: str, output: Path) -> Path:
    return output / f"{model}-{provider}.json"


def _prompts(vocabulary: int) -> list[list[int]]:
    import torch

    random = torch.Generator().manual_seed(0)
    return [torch.randint(0, vocabulary, (length,), generator=random).tolist() for length in _LENGTHS]


def _transformers(checkpoint: str, tokens: int) -> dict[str, Any]:
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.float32).eval()
    found = []
    for prompt in _prompts(model.config.vocab_size):
        ids = list(prompt)
        for _ in range(tokens):
            with torch.no_grad():
                ids.append(int(model(torch.tensor([ids]), use_cache=False).logits[0, -1].argmax()))
        found.append(ids[len(prompt) :])
    return {"tokens": found}


def _serve(checkpoint: str, tokens: int) -> dict[str, Any]:
    from vllm import LLM, SamplingParams

    llm = LLM(
        model=checkpoint,
        skip_tokenizer_init=True,
        dtype="float32",
        max_model_len=64,
        max_num_seqs=4,
        block_size=16,
        kv_cache_memory_bytes=8 << 20,
    )
    vocabulary = llm.llm_engine.vllm_config.model_config.get_vocab_size()
    sampling = SamplingParams(max_tokens=tokens, ignore_eos=True, detokenize=False, temperature=0.0)
    requests = [{"prompt_token_ids": prompt} for prompt in _prompts(vocabulary)]
    outputs = llm.generate(requests, sampling, use_tqdm=False)
    from kunport_runtime.operators.accounting import ledger

    calls: Counter[tuple[str, str]] = Counter()
    for record in ledger.records():
        calls[record.provider, record.operator] += record.count
    worker = llm.llm_engine.engine_core.engine_core.model_executor.driver_worker.worker
    return {
        "tokens": [list(output.outputs[0].token_ids) for output in outputs],
        "calls": [[*pair, count] for pair, count in calls.items()],
        "failures": [[failure.provider, failure.operator, failure.reason] for failure in ledger.failures],
        "adapter": type(worker.model_runner.model).__module__,
    }


def _row(model: str, provider: str, output: Path) -> bool:
    path = _answers(model, provider, output)
    if not path.exists():
        print(_ROW.format(model, provider, "FAIL", "-", "-", "-", "the engine stopped"), flush=True)
        return False
    found = json.loads(path.read_text(encoding="utf-8"))
    expected = json.loads(_answers(model, "transformers", output).read_text(encoding="utf-8"))["tokens"]
    pairs = [
        pair for ours, theirs in zip(found["tokens"], expected, strict=True) for pair in zip(ours, theirs, strict=True)
    ]
    equal = sum(a == b for a, b in pairs)
    total, own = sum(count for *_, count in found["calls"]), [each for each in found["calls"] if each[0] == provider]
    share = sum(count for *_, count in own) / total
    faults = [f"{operator}: {reason}" for name, operator, reason in found["failures"] if name == provider]
    generated = model in found["adapter"] and not found["adapter"].startswith("vllm")
    passed = equal == len(pairs) and bool(own) and not faults and generated
    by = {
        who: ", ".join(sorted({name for each, name, _ in found["calls"] if each == who})) for who in (provider, "torch")
    }
    what = by[provider] if provider == "torch" else f"{by[provider]}; torch: {by['torch']}"
    if not generated:
        faults.append(f"served by {found['adapter']}")
    verdict = "pass" if passed else "FAIL"
    seconds = f"{found['seconds']:.1f}"
    print(
        _ROW.format(model, provider, verdict, f"{equal}/{len(pairs)}", f"{share:.0%}", seconds, what),
        *faults,
        flush=True,
    )
    return passed


if __name__ == "__main__":
    sys.exit(main())

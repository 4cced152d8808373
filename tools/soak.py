"""Serves many requests at once, cancels some, lets the cache run short, and counts what went wrong.

KUNPORT_DEVICE=cpu python tools/soak.py CHECKPOINT [--requests 2000] [--seed 0]

A checkpoint is a folder, such as `kunport tiny llama` makes. First every prompt runs alone, with nothing else in the
engine: its tokens are what the same prompt must give later, in any company. Then the requests come in at random, with
random lengths; one in eight is cancelled on the way; the KV cache is so small that requests are preempted.

Counted, and each must be 0: requests lost (neither finished nor cancelled), wrong tokens, and the error of the memory
pools' account in bytes. Resident memory after the first quarter may grow by less than 1 %.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import os
import random
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

_ENVIRONMENT = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # the engine in this process: its memory is what is measured
    "TORCHDYNAMO_DISABLE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "HF_HUB_OFFLINE": "1",
}
_PROMPTS = 96  # distinct ones; requests repeat them
_LONGEST_ANSWER = 24
_CANCELLED = 1 / 8
_GROWTH = 0.01  # of resident memory after the first quarter


@dataclass(frozen=True)
class Item:
    """A prompt, how to sample from it, and the tokens that it gives when it runs alone."""

    prompt: list[int]
    sampling: dict[str, Any]
    alone: list[int] = field(default_factory=list)


@dataclass
class Findings:
    """What a soak found."""

    requests: int = 0
    finished: int = 0
    cancelled: int = 0
    preemptions: int = 0
    lost: int = 0
    wrong_tokens: int = 0
    tokens: int = 0
    pool_error: int = 0
    resident_quarter: int = 0
    resident_end: int = 0
    seconds: float = 0.0

    @property
    def growth(self) -> float:
        """Of resident memory, from the first quarter to the end."""
        return self.resident_end / self.resident_quarter - 1

    @property
    def passed(self) -> bool:
        """Whether nothing went wrong."""
        return not (self.lost or self.wrong_tokens or self.pool_error) and self.growth < _GROWTH


def items(vocabulary: int, context: int, seed: int) -> list[Item]:
    """Prompts of random lengths, a third of them with a common beginning; greedy, and sampled with a seed."""
    draw = random.Random(seed)
    common = [draw.randrange(vocabulary) for _ in range(context // 4)]
    made = []
    for number in range(_PROMPTS):
        own = [draw.randrange(vocabulary) for _ in range(draw.randint(1, context // 2))]
        sampling = (
            {"temperature": 0.0} if number % 2 else {"temperature": 0.8, "top_p": 0.9, "top_k": 20, "seed": number}
        )
        made.append(Item(common + own if number % 3 == 0 else own, sampling))
    return made


class Soak:
    """One engine and its requests."""

    def __init__(self, checkpoint: Path, seed: int) -> None:
        from vllm import LLM

        config = json.loads((checkpoint / "config.json").read_text(encoding="utf-8"))
        self.context = min(256, config["max_position_embeddings"])
        self.llm = LLM(
            model=str(checkpoint),
            skip_tokenizer_init=True,
            dtype="float32",
            enforce_eager=True,
            max_model_len=self.context,
            max_num_seqs=16,
            max_num_batched_tokens=64,  # so that prompts are read in pieces
            block_size=16,
            kv_cache_memory_bytes=_cache_bytes(config, self.context),
            seed=seed,
            disable_log_stats=False,
        )
        self.engine = self.llm.llm_engine
        self.draw = random.Random(seed)
        self.findings = Findings()
        self.items = [self._alone(item) for item in items(config["vocab_size"], self.context, seed)]
        self._settled = self._used()

    def _alone(self, item: Item) -> Item:
        output = self.llm.generate(_prompt(item), self._sampling(item, _LONGEST_ANSWER), use_tqdm=False)[0]
        return Item(item.prompt, item.sampling, list(output.outputs[0].token_ids))

    def _sampling(self, item: Item, tokens: int) -> Any:
        from vllm import SamplingParams

        return SamplingParams(max_tokens=tokens, ignore_eos=True, detokenize=False, **item.sampling)

    def run(self, count: int) -> Findings:
        """Send ``count`` requests through the engine, some at a time."""
        begin, found = time.monotonic(), self.findings
        waiting, running = iter(self._requests(count)), {}
        while True:
            for name, request in waiting:
                self.engine.add_request(name, _prompt(request.item), self._sampling(request.item, request.tokens))
                running[name] = request
                if self.draw.random() < 0.4:
                    break  # the next ones come later
            if not running:
                break
            for output in self.engine.step():
                self._look(output, running)
            done = found.finished + found.cancelled
            if not found.resident_quarter and done >= count // 4:
                found.resident_quarter = _resident()
            if done % 50 == 0:
                found.pool_error = max(found.pool_error, self._pool_error())
            if running and not self.engine.has_unfinished_requests():
                found.lost += len(running)
                break
        found.pool_error = max(found.pool_error, self._pool_error())
        found.resident_end, found.seconds = _resident(), time.monotonic() - begin
        found.preemptions = sum(m.value for m in self.llm.get_metrics() if m.name == "vllm:num_preemptions")
        return found

    def _requests(self, count: int) -> Iterator[tuple[str, Request]]:
        for number in range(count):
            self.findings.requests += 1
            tokens = self.draw.randint(1, _LONGEST_ANSWER)
            stop = self.draw.randint(1, tokens) if self.draw.random() < _CANCELLED else None
            yield f"request-{number}", Request(self.draw.choice(self.items), tokens, stop)

    def _look(self, output: Any, running: dict[str, Request]) -> None:
        """Compare what a request has so far; cancel it at its time; count it when it is done."""
        name, found = output.request_id, self.findings
        request = running[name]
        tokens = list(output.outputs[0].token_ids)
        ends = output.finished or (request.stop is not None and len(tokens) >= request.stop)
        if not ends:
            return
        del running[name]
        found.tokens += len(tokens)
        found.wrong_tokens += sum(a != b for a, b in zip(tokens, request.item.alone, strict=False))
        if output.finished:
            found.finished += 1
            found.lost += len(tokens) != request.tokens
        else:
            found.cancelled += 1
            self.engine.abort_request([name])

    def _accounts(self) -> list[dict[str, Any]]:
        return self.llm.collective_rpc("kunport_memory")[0]

    def _used(self) -> dict[str, int]:
        return {account["tag"]: account["used"] for account in self._accounts()}

    def _pool_error(self) -> int:
        """Bytes by which accounts do not add up, or differ from what was held before the first request."""
        accounts = self._accounts()
        sums = sum(abs(a["reserved"] - a["used"] - a["padding"] - a["free"]) for a in accounts)
        return sums + sum(abs(a["used"] - self._settled[a["tag"]]) for a in accounts)


@dataclass(frozen=True)
class Request:
    """An item that was sent: how many tokens it may give, and after how many it is cancelled (None: never)."""

    item: Item
    tokens: int
    stop: int | None


def _prompt(item: Item) -> Any:
    return {"prompt_token_ids": item.prompt}


def _cache_bytes(config: dict[str, Any], context: int) -> int:
    """A KV cache for three sequences of the full length, where sixteen may run."""
    heads = config.get("num_key_value_heads") or config["num_attention_heads"]
    head_dim = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    return 3 * context * config["num_hidden_layers"] * heads * 2 * head_dim * 4


def _resident() -> int:
    """Bytes of this process in memory, once Python and the C library have given back what they can."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    os.environ.update(_ENVIRONMENT)
    found = Soak(options.checkpoint, options.seed).run(options.requests)
    print(json.dumps(asdict(found) | {"growth": round(found.growth, 5), "passed": found.passed}, indent=1))
    return 0 if found.passed else 1


if __name__ == "__main__":
    sys.exit(main())

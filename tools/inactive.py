"""Measures what kunport costs a vLLM that does not use it: start-up and throughput, installed against not installed.

python tools/inactive.py [--rounds 5] [--output build/inactive]

Two environments are made of links to this one's packages: one with all of them, one without kunport. In turns, so
that what else the machine does falls on both, each starts vLLM's engine on a tiny Llama and answers 32 prompts with 64
tokens each. Processor time is compared beside the clock: it says more on a machine that others use.

The last lines name the modules of kunport that the process had imported in the end.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from statistics import median

SIDES = ("without", "with")
OWN = ("kunport", "__editable__.kunport", "__editable___kunport")
JOB = """
import json, sys, time

begin = time.perf_counter(), time.process_time()
from vllm import LLM, SamplingParams

llm = LLM(sys.argv[1], skip_tokenizer_init=True, dtype="float32", enforce_eager=True, max_model_len=128,
          kv_cache_memory_bytes=64 << 20, disable_log_stats=True)
ready = time.perf_counter(), time.process_time()
prompts = [{"prompt_token_ids": [5 + (7 * i + j) % 90 for j in range(16)]} for i in range(32)]
sampling = SamplingParams(max_tokens=64, ignore_eos=True, detokenize=False, temperature=0)
llm.generate(prompts[:2], sampling, use_tqdm=False)
speeds = []
for _ in range(3):
    start = time.perf_counter(), time.process_time()
    llm.generate(prompts, sampling, use_tqdm=False)
    speeds.append([32 * 64 / (time.perf_counter() - start[0]), 32 * 64 / (time.process_time() - start[1])])
print(json.dumps({
    "start-up, s": ready[0] - begin[0],
    "start-up, s of processor": ready[1] - begin[1],
    "tokens a second": max(speed for speed, _ in speeds),
    "tokens a second of processor": max(speed for _, speed in speeds),
    "modules": sorted(name for name in sys.modules if name.partition(".")[0].startswith("kunport")),
}))
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="of two runs of each side")
    parser.add_argument("--output", type=Path, default=Path("build/inactive"))
    options = parser.parse_args()
    checkpoint = _checkpoint(options.output / "llama")
    pythons = {side: _environment(options.output / side, with_kunport=side == "with") for side in SIDES}
    found: dict[str, list[dict[str, float]]] = {side: [] for side in SIDES}
    modules: dict[str, list[str]] = {}
    for round_ in range(options.rounds):
        for side in (*SIDES, *reversed(SIDES)):
            answer = _run(pythons[side], checkpoint)
            modules[side] = answer.pop("modules")
            found[side].append(answer)
        print(f"round {round_ + 1} of {options.rounds}", file=sys.stderr)
    print(f"{'':30} {'without':>9} {'with':>9}  with / without, of runs beside each other")
    for name in found["with"][0]:
        without, with_ = ([run[name] for run in found[side]] for side in SIDES)
        ratios = [ours / theirs for ours, theirs in zip(with_, without, strict=True)]
        spread = f"{median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})"
        print(f"{name:30} {median(without):9.2f} {median(with_):9.2f}  {spread}")
    for side in SIDES:
        print(f"{side}: {', '.join(modules[side]) or 'no module of kunport'}")
    return 0


def _checkpoint(folder: Path) -> Path:
    import kunport

    return folder if folder.exists() else kunport.tiny("llama", folder)


def _environment(folder: Path, *, with_kunport: bool) -> Path:
    """An environment of links to this one's packages; its Python."""
    if not folder.exists():
        venv.create(folder, symlinks=True)
        packages = folder / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
        for package in Path(sysconfig.get_path("purelib")).iterdir():
            if with_kunport or not package.name.startswith(OWN):
                (packages / package.name).symlink_to(package)
    return folder / "bin" / "python"


def _run(python: Path, checkpoint: Path) -> dict[str, float]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("KUNPORT", "PYTHONPATH"))}
    environment |= {
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "VLLM_LOGGING_LEVEL": "ERROR",
        "VLLM_NO_USAGE_STATS": "1",
        "TORCHDYNAMO_DISABLE": "1",
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
    }
    command = [str(python.absolute()), "-c", JOB, str(checkpoint.resolve())]
    # In a folder of its own: a repository's own metadata would be found from its root, on both sides.
    done = subprocess.run(
        command, env=environment, cwd=checkpoint.parent, stdout=subprocess.PIPE, text=True, check=True
    )
    answer: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return answer


if __name__ == "__main__":
    sys.exit(main())

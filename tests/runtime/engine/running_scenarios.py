"""Runs `scenarios.py` in a process of its own, and reads what each scenario found."""

import json
import os
import subprocess
import sys
from pathlib import Path

ENVIRONMENT = {
    "KUNPORT_DEVICE": "cpu",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_LOGGING_LEVEL": "WARNING",
    "VLLM_NO_USAGE_STATS": "1",
    "TORCHDYNAMO_DISABLE": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
}


def run_scenarios(names, checkpoint, folder, untraced, **variables):
    """What each scenario found, by its name."""
    command = [sys.executable, str(Path(__file__).with_name("scenarios.py")), str(checkpoint), str(folder), *names]
    traced = {"KUNPORT_TEST_TRACED": os.environ.get("COVERAGE_PROCESS_START", "")}
    subprocess.run(command, check=True, env=untraced | ENVIRONMENT | traced | variables, cwd=folder)
    return {name: json.loads((folder / f"{name}.json").read_text()) for name in names}

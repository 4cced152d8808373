"""Ports the first slice of architectures and prints a table: what CI keeps, at full length.

python tools/slice.py [MODEL ...] [--output DIR]

Columns: the executed graph's largest relative error, the largest error of a log-probability over all batch sizes,
greedy tokens equal of those compared, lines of the model file, seconds of analysis, generation, and of all.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from kunport.validation.processes.warm import warm

import kunport

SLICE = [
    "llama", "qwen2", "qwen3", "mistral", "olmo2", "gemma2", "gemma3_text", "phi3", "gpt_neox", "starcoder2", "cohere",
    "glm4", "granite", "smollm3", "stablelm", "mixtral",
]  # fmt: skip
HEADER = ("model", "verdict", "graph", "logprob", "greedy", "lines", "analyze", "write", "all")
ROW = "{:22} {:8} {:>9} {:>9} {:>9} {:>5} {:>7} {:>6} {:>6}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=SLICE)
    parser.add_argument("--output", type=Path, default=Path("build/slice"))
    options = parser.parse_args()
    print(ROW.format(*HEADER), flush=True)
    with warm():
        passed = [_row(model, options.output) for model in options.models]
    print(f"{sum(passed)} of {len(passed)} passed")
    return 0 if all(passed) else 1


def _row(model: str, output: Path) -> bool:
    begin = time.monotonic()
    try:
        port = kunport.port(model, output)
    except kunport.KunportError as error:
        print(f"{model:22} {'REFUSED':8} {error}", flush=True)
        return False
    if port.report is None or port.adapter is None:
        reason = next((f"{unknown.where} {unknown.reason}" for unknown in port.description.unknowns), "")
        print(f"{model:22} {'UNKNOWN':8} {reason}", flush=True)
        return False
    report = port.report
    seconds = {stage.name: stage.seconds or 0.0 for stage in report.stages}
    batches = report.batches
    print(
        ROW.format(
            model,
            "pass" if report.passed else "FAIL",
            f"{report.graph.max_relative:.1e}" if report.graph else "-",
            f"{report.max_error:.1e}" if batches else "-",
            f"{sum(b.greedy_equal for b in batches)}/{sum(b.greedy_total for b in batches)}",
            len(_model_file(port.adapter).read_text(encoding="utf-8").splitlines()),
            f"{seconds.get('analyze checkpoint', seconds.get('analyze', 0.0)):.2f}",
            f"{seconds['generate adapter']:.2f}",
            f"{time.monotonic() - begin:.1f}",
        ),
        "; ".join(report.reasons),
        flush=True,
    )
    return report.passed


def _model_file(adapter: Path) -> Path:
    (path,) = (path for path in adapter.glob("*.py") if not path.name.startswith("test_"))
    return path


if __name__ == "__main__":
    sys.exit(main())

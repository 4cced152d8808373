"""Builds every case and runs one forward pass of each: ``python -m kunport.tiny_models [--engine] [CASE ...]``."""

from __future__ import annotations

import argparse
import sys

from kunport.tiny_models import build, cases, find_case


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m kunport.tiny_models", description=__doc__)
    parser.add_argument("case", nargs="*", help="a model type, a variant or an architecture (default: every case)")
    parser.add_argument("--engine", action="store_true", help="at the sizes that vLLM's CPU kernels take")
    options = parser.parse_args(arguments)
    chosen = [find_case(name) for name in options.case] or cases()
    failures = 0
    for case in chosen:
        problem = check(str(case), engine=options.engine)
        failures += bool(problem)
        print(f"{'FAIL' if problem else 'ok':4} {case!s:32} {problem}", flush=True)
    print(f"{len(chosen) - failures} passed, {failures} failed")
    return 1 if failures else 0


def check(name: str, *, engine: bool = False) -> str:
    """What is wrong with a case: nothing (""), or why it cannot be built or gives logits that are not finite."""
    import torch

    try:
        _, model = build(find_case(name), engine=engine)
        with torch.no_grad():
            logits = model(input_ids=torch.arange(5, 17)[None], use_cache=False).logits
    except Exception as error:  # whatever the library raises is this case's result
        return f"{type(error).__name__}: {str(error)[:120]}"
    return "" if bool(torch.isfinite(logits).all()) else "the logits are not finite"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

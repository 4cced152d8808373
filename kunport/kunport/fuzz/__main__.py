"""``python -m kunport.fuzz``: runs cases, prints those that end badly, and keeps their folders where told to."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from kunport.fuzz.cases import write_case
from kunport.fuzz.run import SECONDS, run
from kunport.text import visible


def main() -> int:
    """Run; 1 where a case ended badly."""
    parser = argparse.ArgumentParser(prog="python -m kunport.fuzz", description=__doc__)
    parser.add_argument("--cases", type=int, default=1000, help="how many (1000)")
    parser.add_argument("--seed", type=int, default=0, help="cases of another seed are others (0)")
    parser.add_argument("--first", type=int, default=0, help="number of the first case (0)")
    parser.add_argument("--seconds", type=float, default=SECONDS, help=f"that a case may take ({SECONDS:.0f})")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="write cases that end badly there")
    options = parser.parse_args()
    began, bad, done = time.monotonic(), 0, 0
    for number, problem in run(range(options.first, options.first + options.cases), options.seed, options.seconds):
        done += 1
        if problem:
            bad += 1
            print(f"case {number} of seed {options.seed}: {visible(problem)}", flush=True)
            if options.keep is not None:
                write_case(number, options.seed, options.keep / str(number))
    print(f"{done} cases in {time.monotonic() - began:.0f} s, {bad} ended badly", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

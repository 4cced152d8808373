"""``python -m kunport.fuzz``: runs cases, prints those that end badly, and keeps their folders where told to.

A case that ended badly runs again alone by ``--seed S --first N --cases 1``.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from kunport.fuzz.cases import write_case
from kunport.fuzz.log import Log
from kunport.fuzz.run import SECONDS, run
from kunport.text import visible

_TELL = 1000  # cases between two lines of progress


def main() -> int:
    """Run; 1 where a case ended badly."""
    parser = argparse.ArgumentParser(prog="python -m kunport.fuzz", description=__doc__)
    parser.add_argument("--cases", type=int, default=1000, help="how many (1000)")
    parser.add_argument("--seed", type=int, default=0, help="cases of another seed are others (0)")
    parser.add_argument("--first", type=int, help="number of the first case (0, or that after the log's last)")
    parser.add_argument("--seconds", type=float, default=SECONDS, help=f"that a case may take ({SECONDS:.0f})")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="write cases that end badly there")
    parser.add_argument("--log", type=Path, metavar="FILE", help="write a line for each case, and go on after the last")
    options = parser.parse_args()
    log = Log(options.log, options.seed)
    first = options.first if options.first is not None else log.next or 0
    began, bad = time.monotonic(), 0
    for done, (number, ending) in enumerate(run(range(first, first + options.cases), options.seed, options.seconds), 1):
        log.add(number, ending)
        if ending.kind == "failure":
            bad += 1
            print(f"case {number} of seed {options.seed}: {visible(ending.problem)}", flush=True)
            if options.keep is not None:
                write_case(number, options.seed, options.keep / str(number))
        if done % _TELL == 0:
            print(f"after {time.monotonic() - began:.0f} s: {log.summary}", flush=True)
    print(f"{time.monotonic() - began:.0f} s, {bad} ended badly; {log.summary}", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

"""``python -m kunport.loading [CASE ...]``: a table of cases, and 1 where proof and loading disagree."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path

from kunport.loading.agreement import compare
from kunport.loading.planted import FAULTS, SOUND
from kunport.text import visible
from kunport.tiny_models.cases import cases


def main() -> int:
    """Compare, and print a row for each checkpoint where both do not agree, then totals."""
    parser = argparse.ArgumentParser(prog="python -m kunport.loading", description=__doc__)
    parser.add_argument("case", nargs="*", help="model types (default: every text decoder with its defaults)")
    names = parser.parse_args().case or [str(case) for case in cases() if not case.tag]
    agreed, total = Counter[str](), Counter[str]()
    with tempfile.TemporaryDirectory(prefix="kunport-loading-") as folder:
        for row in compare(names, Path(folder)):
            total[row.fault] += 1
            agreed[row.fault] += row.agrees
            if not row.agrees:
                print(f"{row.case} {row.fault}: {visible(row.problem)}", flush=True)
                print(f"    proof:   {visible('; '.join(row.found) or 'fits')[:500]}")
                print(f"    loading: {visible('; '.join(row.said) or 'fits')[:500]}", flush=True)
    print(f"\n{'':12}{'agree':>7}{'of':>5}")
    for fault in (SOUND, *FAULTS):
        print(f"{fault:12}{agreed[fault]:>7}{total[fault]:>5}")
    return 0 if agreed == total else 1


if __name__ == "__main__":
    sys.exit(main())

"""``python -m kunport.validation.selftest [FAMILY ...]``: bugs planted in twelve families, or adapters left right.

Prints a line for each, then a summary; exit status 1 where a bug was missed, more than one in twenty was put down to
another module, or something was found in an adapter that is right.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from kunport.validation.plan import DTYPES
from kunport.validation.selftest.run import FAMILIES, run
from kunport.validation.selftest.subjects import generated
from kunport.validation.selftest.table import Row, line


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m kunport.validation.selftest", description=__doc__)
    parser.add_argument("family", nargs="*", help=f"models that kunport has tiny ones of ({', '.join(FAMILIES)})")
    parser.add_argument("--kind", action="append", help="plant only this kind (can be repeated)")
    parser.add_argument("--clean", type=int, default=1, metavar="N", help="runs of each adapter left as it is (1)")
    parser.add_argument("--clean-only", action="store_true", help="plant nothing: count false alarms")
    parser.add_argument("--dtype", default="float32", choices=DTYPES, help="what the engine computes in (float32)")
    parser.add_argument("--seed", type=int, default=0, help="of the weights, and of the first prompts (0)")
    parser.add_argument("--output", type=Path, metavar="FILE", help="write the whole table as JSON")
    options = parser.parse_args(arguments)
    chosen = () if options.clean_only else options.kind
    with tempfile.TemporaryDirectory(prefix="kunport-selftest-") as folder:
        subjects = generated(options.family or FAMILIES, Path(folder), seed=options.seed)
        seeds = range(options.seed, options.seed + options.clean)
        table = run(subjects, chosen=chosen, dtype=options.dtype, seeds=seeds, on_row=_show)
    print(table.summary())
    if options.output is not None:
        options.output.write_text(json.dumps(table.as_dict(), indent=2) + "\n", encoding="utf-8")
    return 0 if table.passed else 1


def _show(row: Row) -> None:
    if not row.reason:
        print(line(row), flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

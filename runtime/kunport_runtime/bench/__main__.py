"""`python -m kunport_runtime.bench [GROUP ...]`: what `kunport ops bench` does, where only the runtime is installed."""

import argparse
from pathlib import Path

from kunport_runtime.bench.measuring import GROUPS, measure


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m kunport_runtime.bench", description=__doc__.splitlines()[0])
    parser.add_argument("groups", nargs="*", help=f"of {', '.join(GROUPS)}; all by default")
    parser.add_argument("--out", type=Path, default=Path("."), help="folder for the results")
    parser.add_argument("--seconds", type=float, default=500, help="stop sweeping after so long")
    parser.add_argument("--finalists", type=int, default=2, help="candidates that take turns with the peers")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each")
    parser.add_argument(
        "--only", default="", help="of variants, rows and products: those with one of these (TEXT,TEXT) in their names"
    )
    parser.add_argument("--check", action="store_true", help="first run every case of the contracts")
    options = vars(parser.parse_args())
    if unknown := set(options["groups"]) - set(GROUPS):
        parser.error(f"there is no {', '.join(unknown)}")
    measure(**options)


if __name__ == "__main__":
    main()

"""Labels cases by running their models, and scores what the analysis states of them."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from kunport.errors import KunportError
from kunport.oracle.children import label_cases
from kunport.oracle.compare import compare
from kunport.oracle.labels import Labels
from kunport.oracle.score import MISSED, OPAQUE, WRONG, Count, Pair, count, judge, total
from kunport.tiny_models import cases, find_case


def main(arguments: list[str]) -> int:
    """Print precision and recall by key, and the misses.

    Exit status 1 where a case has no labels; with a floor also where it is not reached or a label is missed in silence.
    """
    parser = argparse.ArgumentParser(prog="python -m kunport.oracle", description=__doc__)
    parser.add_argument("case", nargs="*", help="a model type, a variant or an architecture (default: every case)")
    folder = Path(tempfile.gettempdir(), "kunport-labels")
    parser.add_argument("--labels", type=Path, default=folder, metavar="DIR", help=f"keeps the labels ({folder})")
    parser.add_argument("--floor", type=float, nargs=2, metavar=("PRECISION", "RECALL"), help="the least that passes")
    parser.add_argument("--absent", action="store_true", help="list what the oracle cannot tell, and why")
    parser.add_argument("--opaque", action="store_true", help="list what the analysis calls opaque, and why")
    options = parser.parse_args(arguments)
    try:
        names = [str(find_case(name)) for name in options.case] or [str(case) for case in cases()]
    except KunportError as error:
        print(error, file=sys.stderr)
        return 2
    pairs: list[Pair] = []
    unlabelled = 0
    for labels in label_cases(names, options.labels):
        if labels.problem:
            unlabelled += 1
            print(f"no labels: {labels.case}: {labels.problem}", flush=True)
            continue
        if options.absent:
            print_absent(labels)
        found = facts_beside(labels)
        print_misses(found, opaque=options.opaque)
        pairs += found
    counts = count(pairs)
    print_table(counts)
    everything = total(counts)
    print(f"{everything.missed} silent misses: labelled, and neither stated nor called opaque")
    return 1 if unlabelled or (options.floor and _below(everything, *options.floor)) else 0


def _below(counted: Count, precision: float, recall: float) -> bool:
    """Whether the floor is not reached."""
    return counted.precision < precision or counted.recall < recall or counted.missed > 0


def facts_beside(labels: Labels) -> list[Pair]:
    """Labels beside facts; where the analysis breaks, every label is missed."""
    try:
        return compare(labels)
    except Exception as error:  # a broken analysis is the worst of misses, and no reason to stop judging
        print(f"no facts: {labels.case}: {type(error).__name__}: {str(error)[:200]}", flush=True)
        return judge(labels, {"model": {}, "layers": []})


def print_misses(pairs: list[Pair], *, opaque: bool) -> None:
    """Each miss once for all layers of a case that share it."""
    listed = (WRONG, MISSED, OPAQUE) if opaque else (WRONG, MISSED)
    places: dict[tuple[str, ...], list[str]] = {}
    first: dict[tuple[str, ...], Pair] = {}
    for pair in pairs:
        if pair.verdict in listed:
            same: tuple[str, ...] = (pair.verdict, pair.key, repr(pair.label), repr(pair.stated))
            first.setdefault(same, pair)
            places.setdefault(same, []).append(pair.place)
    for same, pair in first.items():
        others = len(places[same]) - 1
        print(f"{pair}{f' (and {others} more layers)' if others else ''}", flush=True)


def print_absent(labels: Labels) -> None:
    """What the oracle cannot tell of a case, each reason once."""
    scopes = [labels.model, *labels.layers.values()]
    for key, reason in dict.fromkeys(pair for scope in scopes for pair in scope.absent.items()):
        print(f"not labelled: {labels.case} {key}: {reason}")


def print_table(counts: dict[str, Count]) -> None:
    """One line for each key, and the total."""
    print(f"\n{'key':32}{'cases':>6}{'right':>7}{'wrong':>7}{'missed':>7}{'opaque':>7}{'precision':>11}{'recall':>8}")
    for key, each in [*counts.items(), ("total", total(counts))]:
        cells = f"{each.cases or '':>6}{each.right:>7}{each.wrong:>7}{each.missed:>7}{each.opaque:>7}"
        print(f"{key:32}{cells}{each.precision:>11.4f}{each.recall:>8.4f}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

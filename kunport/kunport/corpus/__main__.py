"""Sweeps over the corpus: ``python -m kunport.corpus graphs|unknowns|adapters [--sample] [CASE ...]``."""

from __future__ import annotations

import argparse
import gc
import sys
import tempfile
from pathlib import Path

from kunport.tiny_models import cases, find_case

# What continuous integration looks at: a few of every kind.
SAMPLE = (
    *("llama", "gemma3_text", "gpt2", "falcon:alibi", "deepseek_v3", "mixtral", "gpt_oss", "jetmoe"),
    *("mamba", "recurrent_gemma", "qwen3_next", "bamba"),
)
_SECONDS = 600.0  # that a case may take


def main(arguments: list[str]) -> int:
    """Exit status 1 where a graph computes something else than its model, or nothing without saying why."""
    parser = argparse.ArgumentParser(prog="python -m kunport.corpus", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    graphs = commands.add_parser("graphs", help="run graphs and models, and compare their logits")
    unknowns = commands.add_parser("unknowns", help="count what is not understood of every architecture")
    adapters = commands.add_parser("adapters", help="generate adapters, and run them in the real engine")
    adapters.add_argument("--output", type=Path, metavar="DIR", help="keep adapters, checkpoints and reports there")
    for command in (graphs, unknowns, adapters):
        command.add_argument("case", nargs="*", help="a model type, a variant or an architecture (default: every case)")
        command.add_argument("--sample", action="store_true", help=f"only {', '.join(SAMPLE)}")
    unknowns.add_argument("--tiny", action="store_true", help="of the tiny models, not the classes' own defaults")
    options = parser.parse_args(arguments)
    names = [str(find_case(name)) for name in (SAMPLE if options.sample else options.case)]
    if options.command == "unknowns":
        return count(names or [str(case) for case in cases() if not case.tag], tiny=options.tiny)
    if options.command == "adapters":
        return port_all(names or [str(case) for case in cases()], options.output)
    return sweep(names or [str(case) for case in cases()])


def count(names: list[str], *, tiny: bool) -> int:
    """Print the share of unknown nodes of each model and of all; 0, since a named unknown is no failure."""
    from kunport.corpus import unknowns
    from kunport.corpus.processes import each_apart

    work = unknowns.tiny if tiny else unknowns.default
    work("llama")  # once before the forks, so that none of them has to import and to read what all need
    shares: list[unknowns.Share] = []
    print(unknowns.HEADER)
    for name, answer in each_apart(work, names, seconds=_SECONDS):
        shares.append(answer if isinstance(answer, unknowns.Share) else unknowns.Share(name, reason=answer))
        print(shares[-1], flush=True)
    print(unknowns.total(shares))
    return 0


def port_all(names: list[str], output: Path | None) -> int:
    """Port each case into a folder of its own; 1 where one was said to run and did not run right."""
    from kunport.cli.terminal import quiet_libraries
    from kunport.corpus import adapters
    from kunport.validation.processes.warm import warm

    quiet_libraries()
    rows: list[adapters.Row] = []
    print(adapters.HEADER)
    with tempfile.TemporaryDirectory(prefix="kunport-") as temporary, warm():
        for name in names:
            folder = (output or Path(temporary)) / name.replace(":", "-")
            rows.append(adapters.port(name, folder))
            print(rows[-1], flush=True)
    print(adapters.total(rows))
    return int(any(row.verdict == adapters.WRONG for row in rows))


def sweep(names: list[str]) -> int:
    import torch

    from kunport.corpus.equality import Row, compare
    from kunport.corpus.processes import each_apart
    from kunport.corpus.table import HEADER, line, total

    torch.set_num_threads(1)
    compare(SAMPLE[0])  # once before the forks, so that none of them has to import and to read what all need
    gc.freeze()
    rows: list[Row] = []
    print(HEADER)
    for name, answer in each_apart(compare, names, seconds=_SECONDS):
        rows.append(answer if isinstance(answer, Row) else Row(name, prefill=[answer]))
        print(line(rows[-1]), flush=True)
    print(total(rows))
    return int(any(row.verdict in ("failed", "differs") for row in rows))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""``kunport analyze MODEL``: what a model is and what it does differently, read from its source."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from kunport.cli.arguments import Verbs, add_model
from kunport.cli.terminal import say, write
from kunport.text import parameters

if TYPE_CHECKING:
    from kunport.description import Description, Line

_WIDTH = 88  # columns of a line's text before its place in the source


def add_to(verbs: Verbs[argparse.ArgumentParser], common: argparse.ArgumentParser) -> None:
    """Add the verb to the command's parser."""
    parser = verbs.add_parser(
        "analyze",
        parents=[common],
        help="say what a model does, and what it does differently",
        description="Reads a model's source without running it. Exit status 1 where something is not understood.",
    )
    add_model(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the description and the weight proof; 1 where the model is not understood or its weights do not fit."""
    import kunport
    from kunport.description import describe

    analysis = kunport.analyze(options.model)
    description, weights = describe(analysis.graph), kunport.prove_weights(analysis)
    if options.format == "json":
        from kunport.report.document import as_json

        write(as_json(None, description, weights))
    else:
        print_description(description)
        if weights is not None:
            from kunport.report.weights import weight_lines

            say("\nWeights")
            for text in weight_lines(weights):
                say(f"    {text}")
    return 0 if description.understood and (weights is None or weights.fits) else 1


def print_description(description: Description) -> None:
    """The description as text: groups of lines, ``*`` where the model differs from a Llama, then the verdict."""
    from kunport.description import name_layers

    size = f"{description.layers} layers, {parameters(description.parameters)} parameters"
    say(f"{description.architecture} ({description.model_type}): {size}")
    for title, lines in description.groups.items():
        say(f"\n{title[:1].upper()}{title[1:]}")
        for line in lines:
            say(_row(line, name_layers(line.layers, description.layers)))
    if description.notes:
        say("\nNotes")
        for text in description.notes:
            say(f"    {text}")
    if description.understood:
        say("\nUnderstood: every operation. `*` marks what a Llama does not do.")
    else:
        print_unknowns(description)


def print_unknowns(description: Description) -> None:
    """What stands in the way of an adapter, with file, line and reason."""
    count = len(description.unknowns)
    say(f"\n{description.architecture} cannot be ported yet: {count} thing{'s' if count > 1 else ''} in the way.")
    for unknown in description.unknowns:
        say(f"    {unknown}")


def _row(line: Line, layers: str) -> str:
    text = f"{line.text}  [{layers}]" if layers else line.text
    return f"  {' ' if line.usual else '*'} {text:<{_WIDTH}}  {line.where}"

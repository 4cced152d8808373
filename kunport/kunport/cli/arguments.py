"""Arguments that several verbs take."""

from __future__ import annotations

import argparse
from pathlib import Path

Verbs = argparse._SubParsersAction  # what `add_subparsers` returns; argparse has no public name for it

PLAIN_FORMATS = ("text", "json")
FORMATS = (*PLAIN_FORMATS, "markdown", "html", "sarif")


def add_model(parser: argparse.ArgumentParser) -> None:
    """MODEL, as every verb that reads a model takes it."""
    parser.add_argument(
        "model", metavar="MODEL", help="a checkpoint folder, a modeling file, an architecture or a model type"
    )


def add_trust(parser: argparse.ArgumentParser) -> None:
    """--trust-remote-code, as every verb that runs a model takes it."""
    parser.add_argument(
        "--trust-remote-code",
        action="store_true",
        help="let Transformers and vLLM run the code in the checkpoint's folder, where that is its model",
    )


def add_output(parser: argparse.ArgumentParser) -> None:
    """--output, the folder of adapters that KUNPORT_ADAPTER_PATH then names."""
    parser.add_argument(
        "--output", type=Path, metavar="DIR", default=Path("adapters"), help="folder of adapters (default: adapters)"
    )

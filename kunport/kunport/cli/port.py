"""``kunport port MODEL``: analysis, generation and validation, with a verdict at the end."""

from __future__ import annotations

import argparse

from kunport.cli.arguments import Verbs, add_model, add_output, add_trust
from kunport.cli.terminal import quiet_libraries, say, write
from kunport.cli.validate import print_verdict


def add_to(verbs: Verbs[argparse.ArgumentParser], common: argparse.ArgumentParser) -> None:
    """Add the verb to the command's parser."""
    parser = verbs.add_parser(
        "port",
        parents=[common],
        help="analyze, generate and validate, with a verdict and a report",
        description="Reads a model, writes its adapter to DIR/MODEL_TYPE, and runs it in vLLM beside the real model. "
        "A model without weights is validated with a tiny random checkpoint. Exit status 1 where the verdict is bad.",
    )
    add_model(parser)
    add_output(parser)
    add_trust(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Port, and print the verdict; 1 where there is no adapter or it is not to be trusted."""
    import kunport
    from kunport.report.document import as_json
    from kunport.report.progress import StageDisplay

    quiet_libraries()
    with StageDisplay() as display:
        port = kunport.port(
            options.model, options.output, on_stage=display, trust_remote_code=options.trust_remote_code
        )
    if port.report is not None:
        print_verdict(port.report, port.description, port.pages, as_json=options.format == "json")
    elif options.format == "json":
        write(as_json(None, port.description))
    else:
        from kunport.report.formats.text import verdict_lines

        for line in ("", *verdict_lines(port.description)):
            say(line)
    return 0 if port.passed else 1

"""``python -m kunport.variants [reference | known | engine]``: writes what is generated.

``reference`` (the default) writes ``docs/reference/variants.md``, ``known`` the facts of every text decoder of the
installed Transformers (minutes), ``engine`` the classes of the installed vLLM.
"""

from __future__ import annotations

import sys
from pathlib import Path

REFERENCE = Path("docs/reference/variants.md")


def main(arguments: list[str]) -> int:
    """Write what the first argument names; 2 where it names nothing."""
    what = arguments[0] if arguments else "reference"
    if what == "reference":
        from kunport.variants.reference import page

        REFERENCE.parent.mkdir(parents=True, exist_ok=True)
        REFERENCE.write_text(page())
    elif what == "known":
        write_known_models()
    elif what == "engine":
        from kunport.variants.verdict.engine import write_engine

        write_engine()
    else:
        sys.stderr.write(f"{what} is neither reference, known nor engine.\n")
        return 2
    return 0


def write_known_models() -> None:
    """Read every architecture with its default configuration, one after the other."""
    from importlib.metadata import version

    from kunport.analysis import analyze
    from kunport.tiny_models.cases import cases
    from kunport.variants import read_facts
    from kunport.variants.known.table import write_known

    defaults = [case for case in cases() if not case.tag]
    models = {str(case): read_facts(analyze(case.architecture).graph) for case in defaults}
    write_known(version("transformers"), models)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

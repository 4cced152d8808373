"""``python -m kunport_runtime.operators``: writes ``docs/reference/operators.md``."""

from __future__ import annotations

from pathlib import Path

from kunport_runtime.operators.page import page
from kunport_runtime.operators.registry import OWN, registry

REFERENCE = Path("docs/reference/operators.md")


def main() -> None:
    """Write the page below the current folder."""
    REFERENCE.parent.mkdir(parents=True, exist_ok=True)
    REFERENCE.write_text(page(each for each in registry.contracts() if each.family != OWN), encoding="utf-8")


if __name__ == "__main__":
    main()

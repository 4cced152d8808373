"""The page on Kunlun has every rule of the simulator, as the simulator has it."""

from __future__ import annotations

from pathlib import Path

from kunport_runtime.simulator.rules import RULES

PAGE = Path(__file__).parents[3] / "docs" / "kunlun.md"


def table() -> str:
    seen = {"call": "in a call", "numbers": "in numbers"}
    rows = [f"| `{rule.name}` | {rule.sentence} | {seen[rule.seen]} | {rule.source} |" for rule in RULES]
    return "\n".join(["| rule | | seen | read in |", "|---|---|---|---|", *rows])


def test_the_page_has_every_rule():
    text = PAGE.read_text(encoding="utf-8")
    written = text.partition("<!-- rules -->\n")[2].partition("\n<!-- /rules -->")[0]
    assert written == table(), f"write into {PAGE.name}, between the comments:\n{table()}"

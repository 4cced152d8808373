"""A profile as a page that needs nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from kunport.profiling.summary import Row, by_layer, by_operator

if TYPE_CHECKING:
    from kunport_runtime.operators.profile_files import Profile

_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Profile of operators</title>
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem }}
table {{ border-collapse: collapse; margin-bottom: 2rem }}
td, th {{ border-bottom: 1px solid #ccc; padding: .2rem .8rem; text-align: right }}
td:first-child, th:first-child, td:last-child {{ text-align: left }}
meter {{ width: 8rem }}
</style>
<h1>Profile of operators</h1>
<p>{about}</p>
{tables}
</html>
"""


def page(profiles: Sequence[Profile]) -> str:
    """HTML with a table of operators, one of layers, and one of memory where there is any."""
    devices = ", ".join(sorted({profile.device for profile in profiles}))
    about = f"{len(profiles)} processes on {devices}. The share of a copy is by bytes of a call's own tensors."
    operators = _table("operator", by_operator(profiles))
    layers = _table("layer", by_layer(profiles))
    return _PAGE.format(about=escape(about), tables=f"{operators}\n{layers}\n{_memory(profiles)}")


def _table(what: str, rows: Sequence[Row]) -> str:
    head = f"<tr><th>{what}<th>provider<th>ms<th>share<th><th>calls<th>us a call<th>of a copy<th></tr>"
    return f"<h2>By {what}</h2>\n<table>{head}\n" + "\n".join(_row(row) for row in rows) + "\n</table>"


def _row(row: Row) -> str:
    copied = "" if row.copied is None else f"{row.copied:.2f}"
    reasons = "; ".join(f"not {provider}: {reason}" for provider, reason in row.skipped.items())
    cells = (
        escape(row.name or "(no layer)"), escape(row.provider), f"{row.milliseconds:.2f}", f"{row.share:.1%}",
        f'<meter value="{row.share:.4f}"></meter>', f"{row.count}", f"{1e3 * row.milliseconds / row.count:.1f}",
        copied, escape(reasons),
    )  # fmt: skip
    return "<tr><td>" + "<td>".join(cells) + "</tr>"


def _memory(profiles: Sequence[Profile]) -> str:
    rows = [
        f"<tr><td>{escape(str(pool['tag']))}<td>{profile.process}<td>{pool['reserved']:,}<td>{pool['peak']:,}</tr>"
        for profile in profiles
        for pool in profile.memory
    ]
    if not rows:
        return ""
    head = "<tr><th>tag<th>process<th>bytes reserved<th>peak</tr>"
    return f"<h2>Memory</h2>\n<table>{head}\n" + "\n".join(rows) + "\n</table>"

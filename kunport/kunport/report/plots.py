"""The plots of the page, as SVG elements whose colours are the page's CSS variables."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence

import matplotlib
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from kunport.text import number_of_bytes
from kunport.validation.report import Batch

# Colours that stand for CSS variables until the SVG is written. Matplotlib needs real ones, the page two sets.
_INK, _MUTED, _GRID, _LIMIT = "#010101", "#020202", "#030303", "#040404"
_SERIES = ("#050501", "#050502", "#050503", "#050504", "#050505", "#050506")
_VARIABLES = {_INK: "--ink", _MUTED: "--muted", _GRID: "--line", _LIMIT: "--bad"} | {
    colour: f"--series-{index}" for index, colour in enumerate(_SERIES, 1)
}
_STYLE = {
    "svg.fonttype": "none",  # text stays text: selectable, and in the page's font
    "font.size": 11,
    "axes.edgecolor": _GRID,
    "axes.labelcolor": _MUTED,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": _MUTED,
    "ytick.color": _MUTED,
    "text.color": _INK,
    "grid.color": _GRID,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
}
_LEAST = 1e-9  # a difference of zero, on a logarithmic axis


def error_plot(batches: Sequence[Batch], limit: float) -> Markup:
    """The largest log-probability error at each position of the sequence, a line for each batch size."""
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(9.6, 3.6), layout="constrained")
        axes = figure.subplots()
        axes.set_yscale("log")
        # Smaller batches last: their lines are shorter, and lie on top of the larger batch's.
        for batch, colour in reversed(list(zip(batches, _colours(len(batches)), strict=True))):
            points = [(x, max(y, _LEAST)) for x, y in enumerate(batch.error_by_position) if y is not None]
            axes.plot(*zip(*points, strict=True), color=colour, linewidth=1.6, label=f"batch {batch.size}")
        axes.axhline(limit, color=_LIMIT, linewidth=1.2, dashes=(5, 3))
        axes.annotate(
            f"limit {limit:.0e}", (1, limit), xycoords=("axes fraction", "data"), xytext=(0, 4),
            textcoords="offset points", color=_LIMIT, ha="right", va="bottom",
        )  # fmt: skip
        axes.set_xlabel("position in the sequence (tokens)")
        axes.set_ylabel("largest error (nats)")
        axes.margins(x=0.01)
        low, high = axes.get_ylim()
        axes.set_ylim(low / 2, max(high, limit * 4))
        handles, labels = axes.get_legend_handles_labels()
        axes.legend(handles[::-1], labels[::-1], frameon=False, ncols=6, loc="lower left", bbox_to_anchor=(-0.01, 1.0))
        return _svg(figure, "errors", "Largest log-probability error by position, for each batch size")


def memory_plot(batches: Sequence[Batch]) -> Markup:
    """Peak memory over batch size: what torch held for the batch, and what the whole process held."""
    sizes = [batch.size for batch in batches]
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(9.6, 3.0), layout="constrained")
        left, right = figure.subplots(1, 2)
        _curve(left, sizes, [batch.memory.live_bytes for batch in batches], "live bytes of the batch", _SERIES[3])
        resident = [(batch.size, batch.memory.resident_bytes) for batch in batches]
        known = [(size, value) for size, value in resident if value is not None]
        _curve(right, [x for x, _ in known], [y for _, y in known], "resident set of the process", _SERIES[1])
        return _svg(figure, "memory", "Peak memory over batch size")


def _curve(axes: Axes, sizes: Sequence[int], values: Sequence[int], title: str, colour: str) -> None:
    axes.plot(sizes, values, color=colour, linewidth=1.8, marker="o", markersize=6)
    for size, value in zip(sizes, values, strict=True):
        axes.annotate(
            number_of_bytes(value), (size, value), xytext=(-3, 7), textcoords="offset points", ha="right", fontsize=10
        )
    axes.set_xscale("log", base=2)
    axes.set_xticks(list(sizes), [str(size) for size in sizes])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_yticks([0], ["0"])  # every point carries its value
    axes.set_ylim(0, max(values, default=1) * 1.25)
    axes.margins(x=0.2)
    axes.set_xlabel("batch size")
    axes.set_title(title, fontsize=11, loc="left", color=_INK)


def _colours(number: int) -> list[str]:
    """One colour a line, in order from light to strong; they repeat where there are more lines than colours."""
    return [_SERIES[index % len(_SERIES)] for index in range(number)]


def _svg(figure: Figure, name: str, description: str) -> Markup:
    """The figure as an SVG element: identifiers of its own, no metadata, the page's colours and font."""
    buffer = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": name}):
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'\bid="', f'id="{name}-', text)
    text = re.sub(r'(xlink:href="#|url\(#)', rf"\1{name}-", text)
    text = re.sub(r"font: ([\d.]+px)[^;\"]*", r"font-size: \1", text)
    for colour, variable in _VARIABLES.items():
        text = text.replace(colour, f"var({variable})")
    label = f'<svg role="img" aria-label="{description}" '
    return Markup(text.replace("<svg ", label, 1))

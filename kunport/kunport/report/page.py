"""The report as one HTML page that needs nothing but itself: no script, no font, no picture from elsewhere."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from kunport import text
from kunport.report import summary
from kunport.report.weights import weight_lines

if TYPE_CHECKING:
    from kunport.analysis.weights import WeightProof
    from kunport.description import Description
    from kunport.validation.report import Report

_DECADES = 6  # of error that the bars in the table span, the limit at their end


def render_page(
    report: Report | None,
    description: Description | None = None,
    weights: WeightProof | None = None,
    *,
    beside: bool = True,
) -> str:
    """The page. Foreign strings are escaped, and made visible where they could steer a display.

    ``beside`` says that ``report.json`` lies beside the page.
    """
    environment = Environment(
        loader=PackageLoader("kunport.report"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "scientific": text.scientific,
        "bytes": text.number_of_bytes,
        "seconds": text.seconds,
        "count": text.count,
        "parameters": text.parameters,
    }
    return environment.get_template("page.html.jinja").render(
        report=report,
        description=description,
        weights=weights,
        weight_lines=weight_lines,
        beside=beside,
        title=_title(report, description),
        summary=summary,
        plots=_plots(report),
        bar=_bar,
        layers=_layers,
    )


def _finalize(value: Any) -> Any:
    return value if isinstance(value, Markup) else text.visible(value)


def _title(report: Report | None, description: Description | None) -> str:
    known = report or description
    return known.architecture if known is not None else "nothing"


def _plots(report: Report | None) -> dict[str, Markup]:
    if report is None or not report.batches:
        return {}
    from kunport.report.plots import error_plot, memory_plot  # matplotlib comes with validation

    return {
        "errors": error_plot(report.batches, report.limits.log_probability),
        "memory": memory_plot(report.batches),
    }


def _bar(error: float, limit: float) -> float:
    """Length of an error's bar in per cent: logarithmic, full at the limit and for what is not a number."""
    if math.isnan(error):
        return 100.0
    if error == 0:
        return 0.0
    return max(0.0, min(100.0, 100 * (1 + math.log10(error / limit) / _DECADES)))


def _layers(layers: tuple[int, ...], depth: int) -> str:
    from kunport.description import name_layers

    return name_layers(layers, depth)

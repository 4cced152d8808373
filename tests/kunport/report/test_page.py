"""The page: one file, well-formed, nothing from elsewhere, and nothing of a model's that acts."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kunport.description import Unknown
from kunport.report.page import render_page
from kunport.validation.report import Engine, GraphCheck, RanClass, Report, Stage
from kunport_codegen.graph import Location
from sample_reports import sample_description, sample_report

pytestmark = pytest.mark.untraced  # most of the time goes into plots; test_files goes through the same lines

HOSTILE = (
    "</title></style></pre><script>alert(1)</script><img src=x onerror=alert(1)> \" ' {{ 7 * 7 }} \u202e\x1b[31m &amp;"
)
VOID = {"meta", "br", "img", "link", "input", "hr", "use", "path"}


class Page(HTMLParser):
    """Reads a page: its elements with attributes, its text, and whether every element is closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def hostile_report() -> Report:
    report = sample_report()
    return replace(
        report,
        adapter=HOSTILE,
        checkpoint=HOSTILE,
        architecture=HOSTILE,
        model_type=HOSTILE,
        stages=[Stage("engine", HOSTILE, "failed", 1.0, HOSTILE)],
        reasons=[HOSTILE],
        notes=[HOSTILE],
        versions={"kunport": HOSTILE, HOSTILE: HOSTILE},
        digests={HOSTILE: HOSTILE},
        hardware={"device": HOSTILE},
        logs={HOSTILE: [HOSTILE, HOSTILE]},
        engine=Engine(RanClass(HOSTILE, HOSTILE, HOSTILE, is_adapter=False), 1, 2, 3),
    )


@pytest.fixture(scope="module")
def text() -> str:
    return render_page(sample_report(), sample_description())


def test_a_page_is_well_formed_and_needs_nothing_else(text: str) -> None:
    page = Page(text)
    assert not any(tag in ("script", "link", "img", "iframe", "object", "form") for tag, _ in page.elements)
    for _, attributes in page.elements:
        assert not any(name.startswith("on") or name in ("src", "srcset", "action") for name in attributes)
        for name in ("href", "xlink:href"):
            assert (attributes.get(name) or "#").startswith("#")
    assert "@import" not in text
    assert all(target.startswith("#") for target in re.findall(r"url\(([^)]*)\)", text))
    assert any(attributes.get("http-equiv") == "Content-Security-Policy" for _, attributes in page.elements)


def test_identifiers_are_unique(text: str) -> None:
    ids = [attributes["id"] for _, attributes in Page(text).elements if "id" in attributes]
    assert ids
    assert len(ids) == len(set(ids))


def test_every_reference_inside_the_plots_leads_somewhere(text: str) -> None:
    ids = {attributes.get("id") for _, attributes in Page(text).elements}
    targets = re.findall(r'href="#([^"]+)"', text) + re.findall(r"url\(#([^)]+)\)", text)
    assert targets
    assert set(targets) <= ids


def test_what_a_reader_must_know_is_there() -> None:
    report = sample_report()
    report.notes = ["sliding_window is 4096: no key left it."]
    text = "".join(Page(render_page(report, sample_description())).text)
    for needed in (
        "PASS", "Olmo2ForCausalLM", "4.0e-06", "12 of 12", "the adapter's", "2.0e-08", "117 KiB", "ab" * 32, "0.32.0",
        "Nothing was measured on a Kunlun XPU", "sliding_window is 4096", "limit 1e-04", "RMS norm",
        "modeling_olmo2.py:12", "layers 0-1", "config.hidden_size is 128",
    ):  # fmt: skip
        assert needed in text, needed


def test_a_failure_says_why_and_shows_the_log() -> None:
    report = sample_report()
    report.reasons = ["engine, stage 'load': crashed: crashed with SIGSEGV."]
    report.stages.append(Stage("engine", "batch 4", "crashed", 2.0, "crashed with SIGSEGV"))
    report.logs = {"engine": ["first line", "last line"]}
    report.batches, report.engine, report.graph = [], None, None
    text = "".join(Page(render_page(report)).text)
    for needed in ("FAIL", "not to be trusted, for one reason", "SIGSEGV", "last line", "crashed:"):
        assert needed in text, needed
    assert "Every batch size" not in text


def test_a_model_that_is_not_understood_has_a_page_without_validation() -> None:
    description = replace(sample_description(), unknowns=[Unknown("a while loop", Location("modeling_x.py", 7))])
    text = "".join(Page(render_page(None, description)).text)
    for needed in ("Not understood", "a while loop", "modeling_x.py:7"):
        assert needed in text


def test_hostile_strings_are_shown_and_do_nothing() -> None:
    description = sample_description()
    line = replace(description.groups["norms"][0], text=HOSTILE, where=Location(HOSTILE, 1))
    hostile = replace(
        description,
        architecture=HOSTILE, groups={HOSTILE: [line]}, guards=[HOSTILE], notes=[HOSTILE],
        unknowns=[Unknown(HOSTILE, Location(HOSTILE, 1))],
    )  # fmt: skip
    text = render_page(hostile_report(), hostile)
    page = Page(text)
    assert not {"script", "img"} & {tag for tag, _ in page.elements}
    assert "alert(1)" in "".join(page.text)
    assert "{{ 7 * 7 }}" in "".join(page.text)
    for steering in ("\u202e", "\x1b"):
        assert steering not in text
    assert r"\u202e" in text


@given(st.text())
@settings(max_examples=25, deadline=None)
def test_any_string_leaves_the_page_well_formed(string: str) -> None:
    report = sample_report()
    report.batches = []
    report.architecture = report.checkpoint = string
    report.reasons = [string]
    Page(render_page(report))


@pytest.mark.parametrize("value", [math.nan, 0.0, 1e-12, 5e-5, 3.0])
def test_any_error_can_be_shown(value: float) -> None:
    report = sample_report()
    report.batches[0].prompt_error = report.batches[0].max_error = value
    report.graph = GraphCheck(3, value, value)
    report.batches[0].error_by_position = [None, value, value]
    widths = [float(width) for width in re.findall(r'style="width: ([\d.]+)%', render_page(report))]
    assert len(widths) == 4
    assert all(0 <= width <= 100 for width in widths)


def test_more_batches_than_colours_and_a_system_that_does_not_tell_its_memory() -> None:
    report = sample_report()
    report.batches = [replace(report.batches[0], size=size) for size in range(1, 9)]
    for batch in report.batches:
        batch.memory = replace(batch.memory, resident_bytes=None)
    Page(render_page(report))


def test_the_same_report_gives_the_same_page(text: str) -> None:
    assert render_page(sample_report(), sample_description()) == text

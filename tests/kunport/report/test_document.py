"""The published schema holds for every report, and describes every field of it."""

from __future__ import annotations

import json
import math
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from kunport.report.document import SCHEMA, as_document, as_json
from kunport.validation.report import Mismatch, Report
from sample_reports import sample_description, sample_report

PUBLISHED = json.loads(SCHEMA.read_text())


def strict(schema: Any) -> Any:
    """The schema, with fields that it does not list forbidden."""
    if isinstance(schema, list):
        return [strict(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {key: strict(value) for key, value in schema.items()}
    if "properties" in schema and "additionalProperties" not in schema:
        closed["additionalProperties"] = False
    return closed


STRICT = Draft202012Validator(strict(PUBLISHED))


def test_the_schema_is_one() -> None:
    Draft202012Validator.check_schema(PUBLISHED)


def test_a_whole_document_is_valid_and_wholly_described() -> None:
    report = sample_report()
    report.batches[0].mismatches = [Mismatch(0, 1, 2, None, math.inf)]
    report.logs = {"engine": ["line"]}
    STRICT.validate(as_document(report, sample_description()))


@pytest.mark.parametrize("name", ["engine", "graph", "parameters", "top", "adapter"])
def test_what_may_be_missing_may_be_null(name: str) -> None:
    STRICT.validate(as_document(replace(sample_report(), **{name: None})))


def test_the_verdict_is_the_validations_and_else_the_analyses() -> None:
    report = sample_report()
    assert as_document(report, sample_description())["verdict"] == "pass"
    report.reasons = ["It is wrong."]
    assert as_document(report)["verdict"] == "fail"
    assert as_document(None, sample_description())["verdict"] == "understood"
    STRICT.validate(as_document(None, sample_description()))
    STRICT.validate(as_document(None))


@st.composite
def reports(draw: st.DrawFn) -> Report:
    """Reports whose numbers and strings may be anything."""
    report = sample_report()
    for batch in report.batches:
        for field in fields(batch):
            if isinstance(getattr(batch, field.name), float):
                setattr(batch, field.name, draw(st.floats()))
        batch.error_by_position = draw(st.lists(st.none() | st.floats(), max_size=4))
    report.reasons = draw(st.lists(st.text(), max_size=2))
    report.notes = draw(st.lists(st.text(), max_size=2))
    report.architecture, report.checkpoint = draw(st.text()), draw(st.text())
    report.versions = draw(st.dictionaries(st.text(), st.text(), max_size=2))
    report.logs = draw(st.dictionaries(st.text(), st.lists(st.text(), max_size=2), max_size=2))
    return report


@given(reports())
def test_every_report_is_valid_json_and_keeps_its_strings(report: Report) -> None:
    def refuse(name: str) -> None:
        raise AssertionError(name)

    text = as_json(report)
    document = json.loads(text, parse_constant=refuse)  # NaN and Infinity are no JSON
    STRICT.validate(document)
    assert document["validation"]["architecture"] == report.architecture
    assert document["validation"]["logs"] == report.logs


def test_the_same_report_gives_the_same_text() -> None:
    assert as_json(sample_report(), sample_description()) == as_json(sample_report(), sample_description())

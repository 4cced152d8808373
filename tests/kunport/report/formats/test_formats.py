"""Every format says the same things, meets its standard, and lets nothing of a model's act."""

import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kunport.analysis.weights import Fault, Ranks, WeightProof
from kunport.description import Line, Unknown
from kunport.report.document import SCHEMA
from kunport.report.formats import FORMATS, Answer, render
from kunport.report.formats.answer import remarks
from kunport.text import visible
from kunport_codegen.graph import Location
from sample_reports import sample_description

# Checked once that it is a schema itself: `jsonschema.validate` would for each example.
DOCUMENT = jsonschema.validators.validator_for(schema := json.loads(SCHEMA.read_text()))(schema)
REQUIRED = json.loads((Path(__file__).parent / "sarif_requirements.json").read_text())
HOSTILE = "</td><script>alert(1)</script> | [x](javascript:y) `\x1b[31m` \u202e @someone <b> {{ 7*7 }}"
STEERING = ("\x1b", "\u202e", "\r", "\x00")


def answer(text="odd", file="modeling_olmo2.py", folder=None):
    description = replace(
        sample_description(), architecture=text, unknowns=[Unknown(text, Location(file, 7))], notes=[text]
    )
    weights = WeightProof(
        3, 1, [text], [text], [Fault("missing", text, "is not there")], {text: text}, Ranks({1: [], 2: [text]})
    )
    return Answer(description, weights, folder)


@pytest.mark.parametrize("form", FORMATS)
def test_each_says_what_is_not_understood_and_what_does_not_fit(form):
    document = render(answer(), form)
    assert document.endswith("\n")
    for text in ("RMS norm, after the branch", "modeling", "12", "odd", "7", "is not there"):
        assert text in document.replace("\\", "")


@pytest.mark.parametrize("form", FORMATS)
def test_a_whole_model_without_weights(form):
    document = render(Answer(sample_description()), form)
    assert "Olmo2ForCausalLM" in document or form == "sarif"
    assert "is not there" not in document


@pytest.mark.parametrize("form", ["text", "markdown", "html"])
def test_no_text_of_a_model_is_markup(form):
    document = render(answer(HOSTILE), form)
    if form != "text":  # which the command line cleans as a whole
        assert not any(character in document for character in STEERING)
        assert "<script>" not in document
        assert "<b>" not in document
    if form == "markdown":
        assert "@someone" not in document
        assert "[x](" not in document
        tables = [line for line in document.splitlines() if line.startswith("| ")]
        assert {line.replace("\\|", "").count("|") for line in tables} == {5}


def test_text_names_folders_of_sources_once_and_only_where_the_file_name_is_enough():
    line = Line("one two " * 20, Location("x/modeling_a.py", 3), (), False)
    sources = {"x/modeling_a.py": "", "x/same.py": "", "y/same.py": ""}
    description = replace(sample_description(), sources=sources, groups={"norm": [line]})
    unknown = Unknown("as x/same.py:4 and x/modeling_a.py:30 say", Location("y/same.py", 7))
    document = render(Answer(replace(description, unknowns=[unknown])), "text")
    head, group, *_ = document.split("\n\n")
    assert head.splitlines()[1:] == ["    x/modeling_a.py"]
    assert "y/same.py:7: as x/same.py:4 and modeling_a.py:30 say" in document
    _, first, second = group.splitlines()
    assert first.endswith("  modeling_a.py:3")
    assert f"{first.removesuffix('modeling_a.py:3')}{second}".split() == ["*", *("one two " * 20).split()]


@settings(max_examples=40, deadline=None)
@given(st.text())
def test_json_and_sarif_hold_any_text(text):
    document = json.loads(render(answer(text), "json"))
    DOCUMENT.validate(document)
    assert document["weights"]["faults"][0]["name"] == text
    log = json.loads(render(answer(text, text), "sarif"))
    messages = [result["message"]["text"] for result in log["runs"][0]["results"]]
    assert visible(text).replace("[", "\\[").replace("]", "\\]") in messages or not text


def test_sarif_meets_the_standard_and_points_at_lines(tmp_path, monkeypatch):
    (tmp_path / "a model").mkdir()
    (tmp_path / "a model/modeling_olmo2.py").write_text("")
    monkeypatch.chdir(tmp_path)
    subject = answer(folder=tmp_path / "a model")
    log = json.loads(render(subject, "sarif"))
    jsonschema.validate(log, REQUIRED)
    run = log["runs"][0]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert all(rules[result["ruleIndex"]] == result["ruleId"] for result in run["results"])
    assert len(run["results"]) == len(list(remarks(subject)))
    place = run["results"][0]["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "a%20model/modeling_olmo2.py", "uriBaseId": "SRCROOT"}
    assert place["region"] == {"startLine": 12}
    assert {result["level"] for result in run["results"]} == {"note", "error"}


def test_sarif_places_library_files_below_the_library():
    log = json.loads(render(answer(file="transformers/activations.py"), "sarif"))
    jsonschema.validate(log, REQUIRED)
    assert (
        log["runs"][0]["results"][1]["locations"][0]["physicalLocation"]["artifactLocation"]["uriBaseId"] == "LIBRARY"
    )

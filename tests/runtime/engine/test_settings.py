"""Settings from the command line and the environment."""

import argparse

import pytest
from kunport_runtime.engine import settings
from kunport_runtime.errors import KunportRuntimeError


@pytest.fixture(autouse=True)
def clean(monkeypatch):
    for name in (settings.REFERENCE_ONLY, settings.MEMORY_BUDGET):
        monkeypatch.setenv(name, "")  # so that what a test sets is undone
        monkeypatch.delenv(name)


def test_the_flag_of_the_command_line_reaches_other_processes():
    parser = argparse.ArgumentParser()
    settings.add_arguments(parser)
    settings.add_arguments(parser)  # vLLM asks more than once
    assert vars(parser.parse_args([])) == {}
    assert not settings.reference_only()
    parser.parse_args(["--disable-custom-ops"])
    assert settings.reference_only()


@pytest.mark.parametrize(("value", "expected"), [("1", True), ("true", True), ("0", False), ("", False)])
def test_the_variable_says_the_same(monkeypatch, value, expected):
    monkeypatch.setenv(settings.REFERENCE_ONLY, value)
    assert settings.reference_only() is expected


def test_a_budget_is_a_size(monkeypatch):
    assert settings.memory_budget() is None
    monkeypatch.setenv(settings.MEMORY_BUDGET, "2GiB")
    assert settings.memory_budget() == 2 << 30
    monkeypatch.setenv(settings.MEMORY_BUDGET, "plenty")
    with pytest.raises(KunportRuntimeError, match="plenty"):
        settings.memory_budget()

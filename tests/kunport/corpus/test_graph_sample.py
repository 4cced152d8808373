"""A sample of the corpus, one model of each kind: what their graphs compute is what they compute."""

from __future__ import annotations

import gc

import pytest
from kunport.corpus.__main__ import SAMPLE, main

pytestmark = pytest.mark.untraced


def test_the_graphs_of_the_sample_are_their_models(capsys: pytest.CaptureFixture[str]) -> None:
    try:
        assert main(["graphs", "--sample"]) == 0
    finally:
        gc.unfreeze()  # what was frozen for the forks: other tests look
    assert f"\n{len(SAMPLE)} of {len(SAMPLE)} equal" in capsys.readouterr().out

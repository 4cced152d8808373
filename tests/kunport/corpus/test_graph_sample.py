"""A sample of the corpus, one model of each kind: what their graphs compute is what they compute."""

from __future__ import annotations

import pytest
from kunport.corpus.__main__ import SAMPLE, main

pytestmark = pytest.mark.untraced


def test_the_graphs_of_the_sample_are_their_models(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["graphs", "--sample"]) == 0
    assert f"\n{len(SAMPLE)} of {len(SAMPLE)} equal" in capsys.readouterr().out

"""One process a case: answers, errors, crashes and silence are all rows."""

from __future__ import annotations

import os
import signal
import time

import pytest
from kunport.corpus.processes import each_apart

pytestmark = pytest.mark.untraced


def work(name: str) -> tuple[str, int]:
    if name == "raises":
        raise ValueError("no")
    if name == "crashes":
        os.kill(os.getpid(), signal.SIGKILL)
    if name == "hangs":
        time.sleep(60)
    return name, os.getpid()


def test_every_name_has_an_answer() -> None:
    answers = dict(each_apart(work, ["a", "raises", "crashes", "hangs", "b"], seconds=10))
    assert answers["a"][0] == "a"
    assert len({os.getpid(), answers["a"][1], answers["b"][1]}) == 3
    assert answers["raises"] == "ValueError: no"
    assert answers["crashes"] == "the process ended with status -9"
    assert answers["hangs"] == "no answer in 10 s"

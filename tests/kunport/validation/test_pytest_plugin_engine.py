"""``pytest --kunport-adapter``: an adapter's checks as tests of their own, with JUnit XML."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from xml.etree import ElementTree

import pytest
from checkpoints import write_adapter

pytestmark = pytest.mark.engine

CODE = "from vllm.model_executor.models.llama import LlamaForCausalLM as Native\nclass LlamaForCausalLM(Native): pass\n"
FAULT = """
    def load_weights(self, weights):
        loaded = super().load_weights(weights)
        self.model.norm.variance_epsilon = 1e-2
        return loaded
"""


def run(folder: Path, *arguments: str) -> tuple[int, dict[str, str], str]:
    """The exit status of a pytest in a folder of its own, check -> failure (empty if passed), and what it printed."""
    results, printed = folder / "results.xml", io.StringIO()
    own = ["-c", "/dev/null", "--rootdir", str(folder), "-p", "no:cacheprovider", "-p", "no:cov", "-p", "no:xdist"]
    with contextlib.redirect_stdout(printed):
        status = pytest.main([*own, f"--junitxml={results}", str(folder), *arguments])
    found = {}
    for case in ElementTree.parse(results).getroot().iter("testcase"):
        failure = case.find("failure")
        found[case.attrib["name"]] = "" if failure is None else failure.text or failure.attrib["message"]
    return int(status), found, printed.getvalue()


def test_checks_are_tests(tmp_path: Path, checkpoint: Path) -> None:
    right = write_adapter(tmp_path / "right", code=CODE)
    wrong = write_adapter(tmp_path / "wrong", code=CODE.replace(" pass\n", FAULT))
    both = ["--kunport-adapter", str(right), "--kunport-adapter", str(wrong), "--kunport-checkpoint", str(checkpoint)]
    status, found, printed = run(tmp_path, *both)
    assert status == 1
    assert len(found) == 10
    failed = {name for name, failure in found.items() if failure}
    assert failed == {"wrong: log-probabilities and tokens", "wrong: modules"}
    assert "It starts in model.norm (RMSNorm)" in found["wrong: modules"]
    assert "as_tests.py" not in printed  # the reasons, not where they were raised


def test_an_adapter_that_cannot_be_validated(tmp_path: Path) -> None:
    status, found, _ = run(tmp_path, "--kunport-adapter", str(tmp_path / "nowhere"))
    assert status == 1
    assert all("is not an adapter's folder" in failure for failure in found.values())


def test_nothing_is_added_unasked(tmp_path: Path) -> None:
    (tmp_path / "test_own.py").write_text("def test_own(): pass\n")
    status, found, _ = run(tmp_path)
    assert (status, list(found)) == (0, ["test_own"])

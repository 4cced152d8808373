"""A timed dispatcher says who took how long in which layer, and how many bytes its tensors had."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from kunport_runtime.operators.accounting import Ledger, layer
from kunport_runtime.operators.dispatch import Dispatcher
from kunport_runtime.operators.errors import OperatorError
from kunport_runtime.operators.policy import REFERENCE_ONLY
from kunport_runtime.operators.probe import Probes
from kunport_runtime.operators.profile_files import read_profiles, write_profile
from kunport_runtime.operators.registry import registry
from kunport_runtime.operators.timing import VARIABLE, Timer


@pytest.fixture
def timed() -> Dispatcher:
    dispatcher = Dispatcher(registry, REFERENCE_ONLY, Probes(), Ledger())
    dispatcher.timer = Timer()
    return dispatcher


def test_calls_are_summed_by_layer_and_operator_with_their_bytes(timed: Dispatcher, tmp_path: Path) -> None:
    x, weight, table = torch.ones(3, 8), torch.ones(8), torch.ones(16, 8)
    with layer("model.layers.0"):
        for _ in range(2):
            timed.call("rms_norm", x=x, weight=weight, epsilon=1e-6)
    timed.call("embed_tokens", ids=torch.tensor([1, 2]), table=table)
    assert timed.timer is not None
    write_profile(timed.timer, tmp_path, [{"tag": "weights", "reserved": 4, "peak": 3}])
    (profile,) = read_profiles(tmp_path)
    norm, embedding = profile.totals
    assert (norm.layer, norm.operator, norm.provider, norm.count) == ("model.layers.0", "rms_norm", "torch", 2)
    assert norm.bytes == 2 * 4 * (3 * 8 + 3 * 8 + 8)  # of out, x and weight, twice
    assert (embedding.layer, embedding.bytes) == ("", None)  # a table is a pool: two rows of it were read
    assert sum(span.nanoseconds for span in profile.spans[:2]) == norm.nanoseconds > 0
    assert [span.operator for span in profile.spans] == ["rms_norm", "rms_norm", "embed_tokens"]
    assert profile.spans[0].begin < profile.spans[2].begin
    assert profile.copy_rate > 1e6
    assert profile.memory[0]["tag"] == "weights"


def test_what_is_updated_counts_twice_and_a_failed_call_not_at_all(timed: Dispatcher) -> None:
    query = torch.ones(2, 1, 4)
    angles = torch.ones(8, 4)
    timed.call("rotary_embedding", query=query, key=None, positions=torch.tensor([0, 1]), cos_sin_cache=angles)
    assert timed.timer is not None
    (total,) = timed.timer.totals.values()
    assert total.bytes == 2 * 4 * 8 + 2 * 8 + 4 * 32


def test_a_process_leaves_its_profile_when_it_ends(tmp_path: Path) -> None:
    script = (
        "import torch; from kunport_runtime import operators\n"
        "operators.rms_norm(x=torch.ones(3, 8), weight=None, epsilon=1e-6)"
    )
    environment = {"PYTHONPATH": ":".join(sys.path), VARIABLE: str(tmp_path), "KUNPORT_OPS_POLICY": "probe = false"}
    subprocess.run([sys.executable, "-c", script], env=environment, check=True)
    (profile,) = read_profiles(tmp_path)
    assert [total.operator for total in profile.totals] == ["rms_norm"]


@pytest.mark.parametrize("text", ["", "{", json.dumps({"process": 1}), json.dumps([])])
def test_a_file_that_is_no_profile_is_named(tmp_path: Path, text: str) -> None:
    with pytest.raises(OperatorError, match="holds no profile"):
        read_profiles(tmp_path)
    (tmp_path / "profile-1.json").write_text(text)
    with pytest.raises(OperatorError, match=r"profile-1\.json is no profile"):
        read_profiles(tmp_path)

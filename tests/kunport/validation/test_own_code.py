"""A checkpoint whose model is code in its own folder: refused until it is trusted, then proven like any other."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from checkpoints import write_adapter, write_checkpoint
from kunport.cli import main
from kunport.errors import KunportError
from kunport.validation.own_code import runs_own_code
from kunport.validation.plan import make_plan

import kunport

AUTO = {"AutoConfig": "configuration_pebble.PebbleConfig", "AutoModelForCausalLM": "modeling_pebble.PebbleForCausalLM"}
OWN: dict[str, Any] = {"model_type": "pebble", "architectures": ["PebbleForCausalLM"], "auto_map": AUTO}


@pytest.fixture(scope="module")
def pebble(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the model's own ``save_pretrained`` writes, code included."""
    import torch
    from own_code_model.configuration_pebble import PebbleConfig
    from own_code_model.modeling_pebble import PebbleForCausalLM

    PebbleConfig.register_for_auto_class()
    PebbleForCausalLM.register_for_auto_class("AutoModelForCausalLM")
    torch.manual_seed(0)
    model = PebbleForCausalLM(PebbleConfig(initializer_range=0.2))
    folder = tmp_path_factory.mktemp("own") / "pebble"
    model.save_pretrained(folder)
    return folder


@pytest.mark.parametrize(
    ("fields", "own"),
    [
        (OWN, True),
        ({**OWN, "model_type": "llama"}, False),  # the file of its class is not there
        ({**OWN, "auto_map": {"AutoConfig": "configuration_pebble.PebbleConfig"}}, True),
        ({**OWN, "auto_map": {"AutoTokenizer": ["tokenization_pebble.Pebble", None]}}, False),
        ({"auto_map": {"AutoModelForCausalLM": "modeling_llama.LlamaForCausalLM"}}, False),
        ({}, False),
    ],
)
def test_own_code_is_what_transformers_does_not_have(fields: dict[str, Any], own: bool, tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path / "checkpoint", **fields)
    assert runs_own_code(folder, trusted=True) is own
    if own:
        with pytest.raises(KunportError, match=r"own code \(auto_map\).* --trust-remote-code"):
            runs_own_code(folder, trusted=False)
    else:
        assert not runs_own_code(folder, trusted=False)


@pytest.mark.parametrize(("fields", "told"), [(OWN, True), ({}, False)])
def test_both_processes_are_told_to_run_only_what_was_analysed(
    fields: dict[str, Any], told: bool, tmp_path: Path
) -> None:
    plan = make_plan(
        None,
        write_checkpoint(tmp_path, **fields),
        batch_sizes=(1,),
        dtype="float32",
        prompts=None,
        seed=0,
        tokens=4,
        trust_remote_code=True,
    )
    assert plan.job(tmp_path)["trust_remote_code"] is plan.engine_job(tmp_path)["trust_remote_code"] is told


def test_a_class_of_another_name_is_own_code_under_a_known_model_type(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path / "checkpoint", auto_map=AUTO)
    (folder / "modeling_pebble.py").write_text("")
    assert runs_own_code(folder, trusted=True)


def test_code_of_a_repository_is_not_what_was_analysed(tmp_path: Path) -> None:
    auto = {name: f"someone/pebble--{reference}" for name, reference in AUTO.items()}
    folder = write_checkpoint(tmp_path / "checkpoint", **{**OWN, "auto_map": auto})
    with pytest.raises(KunportError, match=r"someone/pebble--.*write configuration_pebble.PebbleConfig"):
        runs_own_code(folder, trusted=True)


def test_port_refuses_before_it_writes(pebble: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["port", str(pebble), "--output", str(tmp_path / "adapters")]) == 2
    assert "Add --trust-remote-code" in capsys.readouterr().err
    assert not (tmp_path / "adapters").exists()


def test_validate_refuses_before_it_starts(tmp_path: Path) -> None:
    stages: list[Any] = []
    adapter = write_adapter(tmp_path / "adapter", "PebbleForCausalLM")
    with pytest.raises(KunportError, match="--trust-remote-code"):
        kunport.validate(adapter, write_checkpoint(tmp_path / "checkpoint", **OWN), on_stage=stages.append)
    assert stages == []


def test_validate_without_a_checkpoint_asks_for_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", str(write_adapter(tmp_path / "adapter", "PebbleForCausalLM"))]) == 2
    error = capsys.readouterr().err
    assert "no tiny model of PebbleForCausalLM" in error
    assert "--checkpoint" in error


def test_its_generated_test_skips_until_a_checkpoint_is_named(pebble: Path, tmp_path: Path) -> None:
    adapter = kunport.generate_adapter(kunport.analyze(pebble), tmp_path)
    environment = {name: value for name, value in os.environ.items() if name != "KUNPORT_CHECKPOINT"}
    command = [sys.executable, "-m", "pytest", "-rs", "-p", "no:cacheprovider", str(adapter / "test_pebble.py")]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "1 skipped" in done.stdout
    assert "KUNPORT_CHECKPOINT does not name a checkpoint" in done.stdout
    assert "trust_remote_code=True" in (adapter / "test_pebble.py").read_text()


@pytest.mark.engine
def test_trusted_code_is_proven_end_to_end(pebble: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = str(tmp_path / "adapters")
    assert main(["port", str(pebble), "--trust-remote-code", "--output", output, "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["verdict"] == "pass"
    assert document["validation"]["engine"]["ran"]["is_adapter"]

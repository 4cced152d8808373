import json
import shutil
import subprocess
import sys

import jsonschema
import pytest
from kunport.cli import main
from kunport.report.document import SCHEMA

import kunport

MODELING = """import torch
from torch import nn
from transformers import PreTrainedModel
from transformers.modeling_outputs import CausalLMOutput


class MineForCausalLM(PreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.embed = nn.Embedding(config.vocab_size, config.hidden_size)
        self.head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    def forward(self, input_ids=None, **kwargs):
        hidden = self.embed(input_ids)
        hidden = torch.fft.fft(hidden).real
        return CausalLMOutput(logits=self.head(hidden))
"""
CONFIGURATION = """from transformers import PretrainedConfig


class MineConfig(PretrainedConfig):
    model_type = "mine"

    def __init__(self, vocab_size=64, hidden_size=32, **kwargs):
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        super().__init__(**kwargs)
"""


@pytest.fixture
def mine(tmp_path):
    """A checkpoint folder with code of its own, which does something that no analysis knows."""
    auto = {"AutoConfig": "configuration_mine.MineConfig", "AutoModelForCausalLM": "modeling_mine.MineForCausalLM"}
    config = {"model_type": "mine", "architectures": ["MineForCausalLM"], "auto_map": auto}
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/config.json").write_text(json.dumps(config))
    (tmp_path / "mine/configuration_mine.py").write_text(CONFIGURATION)
    (tmp_path / "mine/modeling_mine.py").write_text(MODELING)
    return tmp_path / "mine"


def test_a_model_is_described_with_source_lines_and_a_verdict(capsys):
    assert main(["analyze", "Olmo2ForCausalLM"]) == 0
    out = capsys.readouterr().out
    head, _, rest = out.partition("\n\n")
    size, source = head.splitlines()
    assert size == "Olmo2ForCausalLM (olmo2): 32 layers, 6.89 B parameters"
    assert source == "    transformers/models/olmo2/modeling_olmo2.py"
    assert rest.startswith("Attention\n")
    assert "transformers/" not in rest
    assert "  * order: r A N + r M N +  [layers 0-31]" in out
    assert "\nEngine\n    runs through a generated adapter\n" in out
    assert "\nNearest\n    most like Olmo3ForCausalLM (olmo3)\n" in out
    assert "modeling_olmo2.py:" in out
    assert "\n\nIn a residual order, r keeps the residual" in out
    assert out.endswith("Understood: every operation. `*` marks what a Llama does not do.\n")


def test_the_catalogue_of_variants_is_listed(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["analyze", "--list-variants"])
    assert ended.value.code == 0
    assert "  attention.window" in capsys.readouterr().out


def test_the_same_as_json_meets_the_published_schema(capsys):
    assert main(["analyze", "olmo2", "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    jsonschema.validate(document, json.loads(SCHEMA.read_text()))
    assert document["verdict"] == "understood"
    assert document["analysis"]["architecture"] == "Olmo2ForCausalLM"


def test_what_is_not_understood_is_named_with_file_line_and_reason(capsys, mine):
    assert main(["analyze", str(mine)]) == 1
    out = capsys.readouterr().out
    assert "\nMineForCausalLM cannot be ported yet: " in out
    assert "modeling_mine.py:16: " in out
    assert "torch.fft" in out


def test_what_is_not_understood_is_json_too(capsys, mine):
    assert main(["analyze", str(mine), "--format", "json"]) == 1
    document = json.loads(capsys.readouterr().out)
    jsonschema.validate(document, json.loads(SCHEMA.read_text()))
    assert document["verdict"] == "not understood"
    assert document["analysis"]["unknowns"][0]["where"]["line"] == 16


@pytest.mark.parametrize("verb", ["generate adapters", "port"])
def test_no_adapter_of_what_is_not_understood(capsys, mine, tmp_path, verb):
    assert main([*verb.split(), str(mine), "--output", str(tmp_path / "output")]) == 1
    assert "modeling_mine.py:16: " in capsys.readouterr().out
    assert not list((tmp_path / "output").rglob("*.py"))
    assert not list((tmp_path / "output").rglob("adapter.json"))


def test_a_refused_port_leaves_a_report_that_names_it(mine, tmp_path):
    assert main(["port", str(mine), "--output", str(tmp_path / "output")]) == 1
    assert "modeling_mine.py:16" in (tmp_path / "output/mine/report.html").read_text()
    document = json.loads((tmp_path / "output/mine/report.json").read_text())
    assert document["verdict"] == "not understood"
    assert main(["port", str(mine), "--output", str(tmp_path / "output")]) == 1  # reports of ours are in nobody's way


def test_a_name_cannot_steer_the_terminal(capsys, mine):
    configuration = mine / "configuration_mine.py"
    configuration.write_text(configuration.read_text().replace('"mine"', r'"mi\x1b[31mne\u202e"'))
    for arguments in (["analyze", str(mine)], ["port", str(mine), "--output", str(mine / "output")]):
        main(arguments)
        out, err = capsys.readouterr()
        assert r"mi\x1b[31mne\u202e" in out + err
        assert "\x1b" not in out + err
        assert "\u202e" not in out + err


def test_analysis_runs_no_code_of_the_model(mine, tmp_path):
    for name in ("modeling_mine.py", "configuration_mine.py"):
        source = (mine / name).read_text()
        (mine / name).write_text(f"{source}\n\nopen({str(tmp_path / 'ran')!r}, 'w').close()\nraise SystemExit(3)\n")
    assert main(["analyze", str(mine)]) == 1
    assert main(["generate", "adapters", str(mine), "--output", str(tmp_path / "output")]) == 1
    assert not (tmp_path / "ran").exists()


def test_the_process_imports_no_framework():
    code = (
        "import sys; from kunport.cli import main; main(['analyze', 'llama']);"
        "print([name for name in ('torch', 'transformers', 'vllm') if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "[]\n"


@pytest.fixture(scope="module")
def mixtral(tmp_path_factory):
    return kunport.tiny("mixtral", tmp_path_factory.mktemp("tiny") / "mixtral")


@pytest.fixture
def checkpoint(mixtral, tmp_path):
    """A tiny checkpoint to damage."""
    return shutil.copytree(mixtral, tmp_path / "checkpoint")


def test_weights_are_proved_from_headers(capsys, checkpoint):
    assert main(["analyze", str(checkpoint)]) == 0
    weights = capsys.readouterr().out.partition("\nWeights\n")[2]
    assert "127 tensors in the checkpoint; 39 of the model's filled" in weights
    assert "tensor-parallel ranks: 1, 2, 4\n    not 8: model.layers.0.self_attn.q_proj.weight" in weights
    assert "Each tensor is used once and fits." in weights


def test_weights_that_do_not_fit_are_named_one_by_one(capsys, checkpoint):
    config = checkpoint / "config.json"
    config.write_text(config.read_text().replace('"num_hidden_layers": 4', '"num_hidden_layers": 5'))
    weights = checkpoint / "model.safetensors"
    weights.write_bytes(
        weights.read_bytes().replace(b"layers.3.block_sparse_moe.experts.2", b"layers.3.block_sparse_moe.experts.9")
    )
    assert main(["analyze", str(checkpoint), "--format", "json"]) == 1
    document = json.loads(capsys.readouterr().out)
    jsonschema.validate(document, json.loads(SCHEMA.read_text()))
    assert document["weights"]["verdict"] == "does not fit"
    faults = {fault["name"]: fault["reason"] for fault in document["weights"]["faults"]}
    assert "model.layers.3.block_sparse_moe.experts.2.w2.weight" in faults["model.layers.3.mlp.experts.down_proj"]
    assert faults.keys() >= {"model.layers.4.self_attn.q_proj.weight", "model.layers.4.mlp.experts.gate_up_proj"}

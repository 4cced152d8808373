"""When `kunport analyze` exits with status 1, and where its answer goes."""

import json
import shutil

import pytest
from kunport.cli import main
from kunport.report.comparison import counted

PLAIN = """from torch import nn
from transformers import PreTrainedModel
from transformers.modeling_outputs import CausalLMOutput


class MineForCausalLM(PreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.embed = nn.Embedding(config.vocab_size, config.hidden_size)
        self.head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    def forward(self, input_ids=None, **kwargs):
        hidden = self.embed(input_ids){}
        return CausalLMOutput(logits=self.head(hidden))
"""


@pytest.fixture
def model(tmp_path):
    """Writes a small model whose hidden states go through an expression."""

    def write(extra=""):
        folder = tmp_path / "mine"
        folder.mkdir()
        config = {"model_type": "mine", "architectures": ["MineForCausalLM"], "vocab_size": 16, "hidden_size": 8}
        config["auto_map"] = {"AutoModelForCausalLM": "modeling_mine.MineForCausalLM"}
        (folder / "config.json").write_text(json.dumps(config))
        (folder / "modeling_mine.py").write_text(PLAIN.format(extra))
        return str(folder)

    return write


@pytest.mark.parametrize(
    ("extra", "conditions", "status"),
    [
        ("", [], 0),
        (".conj_physical_everywhere()", [], 1),
        (".conj_physical_everywhere()", ["nothing"], 0),
        (".conj_physical_everywhere()", ["kernel"], 1),
        (".conj_physical_everywhere()", ["weights"], 0),
        (" * 2", ["difference"], 1),
        (" * 2", ["unknown", "weights"], 0),
        (".cos()", ["opaque"], 1),
        (".softmax(-1)", ["kernel"], 1),
    ],
)
def test_it_fails_on_what_it_was_told_to(model, capsys, extra, conditions, status):
    options = [option for condition in conditions for option in ("--fail-on", condition)]
    assert main(["analyze", model(extra), *options]) == status
    assert bool(capsys.readouterr().err) == bool(status and conditions)


@pytest.mark.parametrize("form", ["text", "json", "markdown", "html", "sarif"])
def test_the_answer_goes_to_a_file(model, tmp_path, capsys, form):
    output = tmp_path / "answer"
    output.write_text("old")
    assert main(["analyze", model(), "--format", form, "--output", str(output)]) == 0
    assert "Mine" in output.read_text() or form == "sarif"
    assert capsys.readouterr().out == ""
    assert [path.name for path in tmp_path.iterdir()] == ["answer", "mine"] or len(list(tmp_path.iterdir())) == 2


def test_a_file_that_cannot_be_written_is_left_alone(model, tmp_path, capsys):
    assert main(["analyze", model(), "--output", str(tmp_path / "nowhere/answer")]) == 2
    assert "--output" in capsys.readouterr().err


def test_other_verbs_write_text_and_json_only(capsys):
    assert main(["--format", "sarif", "tiny", "llama"]) == 2
    assert "Only `kunport analyze` writes sarif. Use text or json." in capsys.readouterr().err


def test_two_models_side_by_side(capsys):
    assert main(["analyze", "gemma", "--against", "llama"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("GemmaForCausalLM (gemma) against LlamaForCausalLM (llama)\n")
    assert "norm[input_layernorm].offset: 1.0 | 0.0" in out
    assert main(["analyze", "gemma", "--against", "gemma", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["differences"] == []
    assert main(["analyze", "gemma", "llama", "--against", "llama"]) == 2
    assert main(["analyze", "gemma", "--against", "llama", "--format", "html"]) == 2


def test_a_difference_between_two_models_is_a_failure_where_it_is_said_to_be(capsys):
    assert main(["analyze", "gemma", "--against", "llama", "--fail-on", "difference"]) == 1
    assert "facts differ" in capsys.readouterr().err
    assert main(["analyze", "gemma", "--against", "gemma", "--fail-on", "difference"]) == 0
    assert main(["analyze", "gemma", "--against", "llama", "--fail-on", "opaque"]) == 2


def test_one_is_not_spoken_of_as_many():
    assert (counted(["x"]), counted(["x", "y"])) == ("1 fact differs", "2 facts differ")


def test_the_number_of_facts_that_are_not_known_is_the_same_on_both_streams(model, capsys):
    assert main(["analyze", model(".cos()"), "--fail-on", "opaque"]) == 1
    printed = capsys.readouterr()
    count = printed.err.removeprefix("kunport: ").split()[0]
    assert f"every operation is read, but {count} fact" in printed.out


def test_the_same_source_does_not_differ_from_itself_where_something_is_not_known(model, tmp_path, capsys):
    first = model(".cos()")
    shutil.copytree(first, tmp_path / "other")
    assert main(["analyze", first, "--against", str(tmp_path / "other"), "--fail-on", "difference"]) == 0
    assert "No fact differs." in capsys.readouterr().out
    assert main(["analyze", first, "--against", "llama", "--fail-on", "difference"]) == 1

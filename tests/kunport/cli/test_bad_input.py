"""Every kind of bad input, through the command line: one line with the cure, exit status 2, nothing half-written."""

import json
import shutil

import pytest
from kunport.cli import main

import kunport

WRITING = ["generate adapters", "port"]
READING = ["analyze", *WRITING]


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    return kunport.tiny("llama", tmp_path_factory.mktemp("tiny") / "llama")


@pytest.fixture
def checkpoint(llama, tmp_path):
    """A tiny checkpoint to damage."""
    return shutil.copytree(llama, tmp_path / "checkpoint")


@pytest.fixture
def refused(capsys, tmp_path):
    """Runs a command that must be refused, and gives the line that it printed."""

    def run(verb, model, *options):
        output = tmp_path / "output"
        arguments = [*verb.split(), str(model), *options]
        if verb != "analyze" and "--output" not in options:
            arguments += ["--output", str(output)]
        capsys.readouterr()
        assert main(arguments) == 2
        out, err = capsys.readouterr()
        *_, line = err.splitlines()
        assert out == ""
        assert line.startswith("kunport: ")
        assert "Traceback" not in err
        assert not output.exists()
        return line

    return run


def custom_code(folder, modeling):
    folder.mkdir()
    auto = {"AutoConfig": "configuration_mine.MineConfig", "AutoModelForCausalLM": "modeling_mine.MineForCausalLM"}
    config = {"model_type": "mine", "architectures": ["MineForCausalLM"], "auto_map": auto}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "configuration_mine.py").write_text(
        "from transformers import PretrainedConfig\n\n\nclass MineConfig(PretrainedConfig):\n    model_type = 'mine'\n"
    )
    (folder / "modeling_mine.py").write_text(modeling)
    return folder


@pytest.mark.parametrize("verb", READING)
def test_a_missing_folder(refused, tmp_path, verb):
    assert "no file or folder" in refused(verb, tmp_path / "nowhere")


@pytest.mark.parametrize("verb", READING)
@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ("{}", "names no model"),
        ('{"model_type": "nonsense", "architectures": ["NonsenseForCausalLM"]}', "NonsenseForCausalLM"),
        ("{", "config.json is not valid JSON"),
    ],
)
def test_a_configuration_without_a_modeling_class(refused, tmp_path, verb, config, problem):
    (tmp_path / "model").mkdir()
    (tmp_path / "model/config.json").write_text(config)
    assert problem in refused(verb, tmp_path / "model")


@pytest.mark.parametrize("verb", READING)
@pytest.mark.parametrize("target", [".", "modeling_mine.py"])
def test_a_syntax_error_names_the_line(refused, tmp_path, verb, target):
    modeling = "from transformers import PreTrainedModel\n\n\nclass MineForCausalLM(PreTrainedModel)\n    pass\n"
    folder = custom_code(tmp_path / "mine", modeling)
    assert "modeling_mine.py, line 4, is not valid Python" in refused(verb, folder / target)


@pytest.mark.parametrize("verb", READING)
@pytest.mark.parametrize(
    ("model_type", "architecture"),
    [("bert", "BertForMaskedLM"), ("llava", "LlavaForConditionalGeneration"), ("t5", "T5ForConditionalGeneration")],
)
def test_a_model_that_is_no_text_decoder(refused, tmp_path, verb, model_type, architecture):
    (tmp_path / "model").mkdir()
    config = {"model_type": model_type, "architectures": [architecture]}
    (tmp_path / "model/config.json").write_text(json.dumps(config))
    for model in (tmp_path / "model", architecture):
        assert "not a text decoder" in refused(verb, model)


@pytest.mark.parametrize("verb", READING)
@pytest.mark.parametrize("size", [0, 4, 100, 2_000_000])
def test_a_truncated_file_of_weights(refused, checkpoint, verb, size):
    weights = checkpoint / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:size])
    assert "model.safetensors is truncated" in refused(verb, checkpoint)


@pytest.mark.parametrize("verb", WRITING)
def test_a_tensor_of_another_shape_than_configured(refused, checkpoint, verb):
    config = checkpoint / "config.json"
    config.write_text(config.read_text().replace('"intermediate_size": 256', '"intermediate_size": 512'))
    line = refused(verb, checkpoint)
    assert "model.layers.0.mlp.gate_proj.weight" in line
    assert "[256, 128], and the configuration makes it [512, 128]" in line


@pytest.mark.parametrize("verb", READING)
def test_a_tensor_whose_bytes_do_not_fit_its_shape(refused, checkpoint, verb):
    weights = checkpoint / "model.safetensors"
    weights.write_bytes(weights.read_bytes().replace(b"[256,128]", b"[256,127]", 1))
    assert "[256, 127]" in refused(verb, checkpoint)


@pytest.mark.parametrize("verb", WRITING)
def test_a_checkpoint_that_lacks_tensors(refused, checkpoint, verb):
    config = checkpoint / "config.json"
    config.write_text(config.read_text().replace('"num_hidden_layers": 4', '"num_hidden_layers": 5'))
    assert "lacks 9 tensors of the model, model.layers.4." in refused(verb, checkpoint)


@pytest.mark.parametrize("verb", WRITING)
@pytest.mark.parametrize("place", ["file", "file/below", "/proc/kunport"])
def test_an_output_folder_that_cannot_be_written(refused, llama, tmp_path, verb, place):
    (tmp_path / "file").write_text("mine")
    line = refused(verb, llama, "--output", str(tmp_path / place))
    assert "--output" in line
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize("place", ["file", "file/below", "/proc/kunport"])
def test_a_tiny_checkpoint_that_cannot_be_written(refused, tmp_path, place):
    (tmp_path / "file").write_text("mine")
    assert "--output" in refused("tiny", "llama", "--output", str(tmp_path / place))


@pytest.mark.parametrize("verb", WRITING)
def test_an_adapter_that_was_edited(refused, llama, tmp_path, verb):
    adapter = kunport.generate_adapter(kunport.analyze(llama), tmp_path / "adapters")
    model = adapter / "llama.py"
    model.write_text(model.read_text() + "# mine\n")
    line = refused(verb, llama, "--output", str(tmp_path / "adapters"))
    assert "holds an adapter that was edited (llama.py). Move it away" in line
    assert model.read_text().endswith("# mine\n")


@pytest.mark.parametrize("model_type", ["..", "../../elsewhere", "/tmp/elsewhere", ".hidden", "a b"])
def test_a_model_type_that_would_leave_the_output_folder(tmp_path, model_type):
    analysis = kunport.analyze("llama", config={"num_hidden_layers": 1})
    analysis.model_type = analysis.graph.model_type = model_type
    with pytest.raises(kunport.KunportError, match="is not a name"):
        kunport.generate_adapter(analysis, tmp_path / "output")


@pytest.mark.parametrize("verb", ["validate"])
@pytest.mark.parametrize("place", ["nowhere", "."])
def test_an_adapter_that_is_none(capsys, tmp_path, verb, place):
    assert main([verb, str(tmp_path / place)]) == 2
    assert "Name the folder that `kunport generate adapters` wrote." in capsys.readouterr().err


def test_a_checkpoint_without_weights_cannot_be_validated_with(refused, llama, tmp_path, checkpoint):
    (checkpoint / "model.safetensors").unlink()
    line = refused("port", checkpoint, "--output", str(tmp_path / "adapters"))
    assert "no weights" in line


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"hidden_size": 10**30}, "hidden_size"),
        ({"vocab_size": -(10**18)}, "vocab_size"),
        ({"rope_parameters": {"rope_type": "default", "rope_theta": 10**40}}, "rope_parameters.rope_theta"),
        ({"layer_sizes": [1, 1 << 60]}, "layer_sizes[1]"),
    ],
)
@pytest.mark.parametrize("verb", READING)
def test_numbers_that_no_model_has_are_named(verb, fields, path, checkpoint, refused):
    config = json.loads((checkpoint / "config.json").read_text())
    (checkpoint / "config.json").write_text(json.dumps(config | fields))
    assert f"The field {path} is a number of " in refused(verb, checkpoint)


@pytest.mark.parametrize("seed", ["9" * 30, "-1", "one"])
def test_a_seed_that_torch_does_not_take(seed, refused):
    assert "is not a whole number below 2**63" in refused("tiny", "llama", f"--seed={seed}")


def test_a_nul_byte_has_its_line(tmp_path, refused):
    folder = custom_code(tmp_path / "mine", "import torch\nx = 1\n\0\n\n\nclass MineForCausalLM:\n    pass\n")
    assert "modeling_mine.py, line 3, is not valid Python" in refused("analyze", folder)

import inspect
import json
import subprocess
import sys

import pytest
from kunport.errors import KunportError, NotPortableError

import kunport
from kunport import api


def test_the_verbs_are_functions_of_the_package_and_nothing_else_is():
    for name in ("analyze", "generate_adapter", "port", "tiny", "validate"):
        assert getattr(kunport, name) is getattr(api, name)
        assert inspect.getdoc(getattr(kunport, name))
    assert kunport.KunportError is KunportError
    assert kunport.NotPortableError is NotPortableError
    assert not hasattr(kunport, "frob")


def test_importing_the_package_imports_nothing_heavy():
    heavy = ("torch", "transformers", "vllm", "libcst", "numpy")
    code = f"import sys, kunport; print([name for name in {heavy} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_a_function_is_still_the_function_once_everything_is_imported(tmp_path):
    kunport.tiny("llama", tmp_path / "llama")
    assert callable(kunport.tiny)
    assert callable(kunport.analyze)


def test_an_adapter_is_written_whole_and_the_same_every_time(tmp_path):
    analysis = kunport.analyze("qwen3", config={"num_hidden_layers": 2})
    first = kunport.generate_adapter(analysis, tmp_path / "one")
    second = kunport.generate_adapter(kunport.analyze("qwen3", config={"num_hidden_layers": 2}), tmp_path / "two")
    assert first == tmp_path / "one/qwen3"
    files = sorted(path.name for path in first.iterdir() if path.is_file())
    assert files == ["README.md", "adapter.json", "qwen3.py", "test_qwen3.py"]
    assert all((first / name).read_bytes() == (second / name).read_bytes() for name in files)
    assert set(json.loads((first / "adapter.json").read_text())["files"]) == set(files) - {"adapter.json"}
    assert kunport.generate_adapter(analysis, tmp_path / "one") == first  # nobody edited it: replaced
    assert [path.name for path in (tmp_path / "one").iterdir()] == ["qwen3"]


def test_what_has_no_place_in_the_engine_is_refused_with_file_and_line(tmp_path):
    analysis = kunport.analyze("mamba", config={"num_hidden_layers": 1})
    assert not analysis.unknowns
    with pytest.raises(NotPortableError, match=r"modeling_mamba\.py:\d+: ") as refused:
        kunport.generate_adapter(analysis, tmp_path)
    assert all(unknown.where.line > 0 and unknown.reason for unknown in refused.value.unknowns)
    assert not list(tmp_path.iterdir())


def test_a_configuration_given_in_python_replaces_fields():
    assert kunport.analyze("llama", config={"num_hidden_layers": 3}).graph.config["num_hidden_layers"] == 3

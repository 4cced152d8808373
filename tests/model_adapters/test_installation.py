import importlib
import inspect
import json
from pathlib import Path

import pytest
from kunport.native_architectures import native_architectures
from kunport_model_adapters import installation
from kunport_model_adapters.discovery import shipped_adapters
from kunport_model_adapters.errors import AdapterError
from kunport_model_adapters.registry import register
from vllm import ModelRegistry

FIXTURES = Path(__file__).with_name("fixtures")


@pytest.fixture(autouse=True)
def registry(monkeypatch):
    """Puts the registry of vLLM back after each test."""
    monkeypatch.setattr(ModelRegistry, "models", dict(ModelRegistry.models))
    return ModelRegistry


@pytest.fixture
def registered(monkeypatch):
    def call(path):
        monkeypatch.setenv("KUNPORT_ADAPTER_PATH", str(path))
        register()

    return call


def test_the_class_that_vllm_loads_is_the_adapters(registered, registry):
    native = registry.models["LlamaForCausalLM"].load_model_cls()
    registered(FIXTURES)
    registered(FIXTURES)  # vLLM says that it may call a plugin again
    loaded = registry.models["LlamaForCausalLM"].load_model_cls()
    assert loaded is not native
    assert issubclass(loaded, native)
    assert inspect.getfile(loaded) == str(FIXTURES / "llama/llama.py")
    decisions = importlib.import_module(loaded.__module__.rpartition(".")[0] + ".decisions")
    assert decisions.__file__ == str(FIXTURES / "llama/decisions.py")
    assert registry.models["Olmo2ForCausalLM"].load_model_cls().__name__ == "Olmo2ForCausalLM"


def test_another_folder_is_another_class(registered, registry, tmp_path):
    """What vLLM loads it caches by name, so the name must differ too."""
    for name in ("one", "two"):
        folder = tmp_path / name
        folder.mkdir()
        manifest = json.loads((FIXTURES / "llama/adapter.json").read_text())
        (folder / "adapter.json").write_text(json.dumps(manifest))
        (folder / "llama.py").write_text(f"class LlamaForCausalLM:\n    name = {name!r}\n")
    loaded = []
    for name in ("one", "two"):
        registered(tmp_path / name)
        loaded.append(registry.models["LlamaForCausalLM"].load_model_cls())
    assert [kind.name for kind in loaded] == ["one", "two"]
    assert loaded[0].__module__ != loaded[1].__module__


def test_nothing_is_registered_if_one_is_broken(registered, registry, tmp_path):
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken/adapter.json").write_text("{}")
    (tmp_path / "fine").symlink_to(FIXTURES / "llama")
    before = dict(registry.models)
    with pytest.raises(AdapterError, match=r"broken/adapter\.json is wrong: 'schema' is None"):
        registered(tmp_path)
    assert registry.models == before


@pytest.mark.parametrize(("made_for", "warned"), [("0.32.1", False), ("0.31.0", True), (None, False)])
def test_another_version_of_vllm_is_said(registered, tmp_path, monkeypatch, made_for, warned):
    monkeypatch.setattr(installation.vllm, "__version__", "0.32.0+cpu")
    warnings = []
    monkeypatch.setattr(installation.logger, "warning", lambda text, *values: warnings.append(text % values))
    manifest = json.loads((FIXTURES / "llama/adapter.json").read_text())
    manifest["versions"] = {"vllm": made_for} if made_for else {}
    (tmp_path / "adapter.json").write_text(json.dumps(manifest))
    (tmp_path / "llama.py").touch()
    registered(tmp_path)
    assert warnings == [f"The adapter in {tmp_path} was made for vLLM {made_for}; this is 0.32.0+cpu."] * warned


def test_shipped_adapters_leave_vllms_own_classes_and_the_users_adapters_alone(monkeypatch, registry):
    before = dict(registry.models)
    monkeypatch.setenv("KUNPORT_SHIPPED_ADAPTERS", "new")
    monkeypatch.setenv("KUNPORT_ADAPTER_PATH", str(FIXTURES))
    register()
    assert inspect.getfile(registry.models["Olmo2ForCausalLM"].load_model_cls()).startswith(str(FIXTURES))
    assert "/shipped/gpt_neox/" in inspect.getfile(registry.models["GPTNeoXForCausalLM"].load_model_cls())
    changed = {name for name, known in registry.models.items() if before.get(name) is not known}
    native = native_architectures()
    assert changed - {"LlamaForCausalLM", "Olmo2ForCausalLM"} == {
        adapter.manifest.architecture for adapter in shipped_adapters()
    } - native - {"Olmo2ForCausalLM"}


def test_all_of_them_take_the_place_of_vllms_own_classes(monkeypatch, registry):
    [adapter, *_] = shipped_adapters()
    native = registry.models["LlamaForCausalLM"]
    monkeypatch.setitem(registry.models, adapter.manifest.architecture, native)
    monkeypatch.delenv("KUNPORT_ADAPTER_PATH", raising=False)
    for choice in ("new", "all"):
        monkeypatch.setenv("KUNPORT_SHIPPED_ADAPTERS", choice)
        register()
        assert (registry.models[adapter.manifest.architecture] is native) == (choice == "new")


def test_native_architectures_are_read_as_vllm_has_them(registry):
    assert native_architectures() == {
        name for name, known in registry.models.items() if not known.module_name.endswith(".transformers")
    }

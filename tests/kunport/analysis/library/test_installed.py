"""An installation of Transformers that is missing, or that is not as expected."""

import importlib.util

import pytest
from kunport.analysis.library.installed import Installation, installation
from kunport.analysis.library.native import native_target
from kunport.analysis.renames import conversion_table
from kunport.errors import KunportError


@pytest.fixture
def broken(tmp_path):
    """An installation with one model whose files are not there."""
    folder = tmp_path / "transformers" / "models" / "auto"
    folder.mkdir(parents=True)
    (folder / "modeling_auto.py").write_text('MODEL_FOR_CAUSAL_LM_MAPPING_NAMES = {"foo": "FooForCausalLM"}\n')
    tables = 'CONFIG_MAPPING_NAMES = {"foo": "FooConfig"}\nSPECIAL_MODEL_TYPE_TO_MODULE_NAME = {"bar": "foo"}\n'
    (folder / "auto_mappings.py").write_text(tables)
    (folder / "configuration_auto.py").write_text("")
    return Installation(tmp_path, "9.9")


def test_without_transformers_there_is_nothing_to_read(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(KunportError, match="Transformers is not installed"):
        installation.__wrapped__()


def test_a_table_that_is_not_there_is_named(broken):
    with pytest.raises(KunportError, match=r"MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES of Transformers 9\.9"):
        broken.other_task("foo")


def test_a_package_without_tables_is_named(tmp_path):
    with pytest.raises(KunportError, match=r"auto_mappings\.py cannot be read"):
        _ = Installation(tmp_path, "9.9").configs


@pytest.mark.parametrize("source", ["", "class FooConfig:\n    model_type = 'foo'\n"])
def test_a_class_that_the_tables_name_and_no_file_defines_is_named(broken, source, monkeypatch):
    monkeypatch.setattr(Installation, "other_task", lambda self, model_type: None)
    broken.folder("foo").mkdir()
    (broken.folder("foo") / "configuration_foo.py").write_text(source)
    with pytest.raises(KunportError, match=r"does not define (FooConfig|it)"):
        native_target(broken, "foo")


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (None, r"conversion_mapping\.py cannot be read"),
        ('"foo"', "table of weight conversions"),
        ('def _build_checkpoint_conversion_mapping():\n    mapping = {"foo": [x]}\n', "table of weight conversions"),
    ],
)
def test_a_table_of_conversions_that_cannot_be_read_is_named(broken, source, said, monkeypatch):
    monkeypatch.setattr(conversion_table, "installation", lambda: broken)
    if source is not None:
        (broken.root / "transformers" / "conversion_mapping.py").write_text(source)
    with pytest.raises(KunportError, match=said):
        conversion_table._ConversionTable().read("foo")

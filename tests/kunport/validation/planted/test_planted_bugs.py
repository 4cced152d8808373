"""Every kind of bug, planted in adapters that have all the places between them."""

from __future__ import annotations

import ast
import json

import pytest
from kunport.tiny_models.build import build_config
from kunport.tiny_models.cases import find_case
from kunport.validation.planted import NotApplicableError, Source, kinds

import kunport

FAMILIES = ("llama:bias_tied_yarn", "gemma2", "deepseek_v3", "bloom", "qwen2_moe", "granite:multipliers", "cohere2")
REST = ("mimo_v2_flash", "olmo2")


@pytest.fixture(scope="module")
def adapters(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, dict[str, object]]]:
    """The source of each family's adapter, and the configuration that it was generated for; no weights."""
    found = {}
    for family in (*FAMILIES, *REST):
        folder = tmp_path_factory.mktemp("model")
        config = build_config(find_case(family), engine=True)
        config.architectures = [find_case(family).architecture]
        config.save_pretrained(folder)
        adapter = kunport.generate_adapter(kunport.analyze(str(folder)), folder / "adapters")
        (file,) = (path for path in adapter.glob("*.py") if not path.name.startswith(("test_", "kernels")))
        found[family] = file.read_text(), json.loads((folder / "config.json").read_text())
    return found


def test_there_are_kinds_enough_and_each_says_what_it_does() -> None:
    assert len(kinds()) >= 40
    assert all(plant.__doc__ and plant.__doc__.endswith(".") for plant in kinds().values())


def test_each_kind_changes_an_adapter_or_says_why_not(adapters: dict[str, tuple[str, dict[str, object]]]) -> None:
    planted: dict[str, list[str]] = {}
    for family, (text, config) in adapters.items():
        unchanged = Source(text, config).text()
        classes = {node.name for node in ast.parse(text).body if isinstance(node, ast.ClassDef)}
        for name, plant in kinds().items():
            source = Source(text, config)
            try:
                place = plant(source)
            except NotApplicableError:
                continue
            changed = source.text()
            compile(changed, f"{family} {name}", "exec")
            assert changed != unchanged, (family, name)
            assert place.layers or place.owner in classes, (family, name)
            if place.attribute:
                assert f"self.{place.attribute} = " in changed, (family, name)
            planted.setdefault(name, []).append(family)
    assert sorted(kinds()) == sorted(planted), "kinds that no family has a place for"

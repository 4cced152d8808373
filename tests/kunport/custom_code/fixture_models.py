"""Fixtures of custom code: each is analysed, and built and run for real with random weights."""

from __future__ import annotations

import argparse
import contextlib
import functools
import importlib
import json
import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from kunport.analysis import Analysis, analyze
from transformers import PretrainedConfig

FIXTURES = Path(__file__).parent / "fixtures"
NAMES = sorted(path.parent.name for path in FIXTURES.glob("*/expected.json"))


@dataclass(frozen=True)
class Fixture:
    """A folder with modeling code and, in ``expected.json``, what must be found in it.

    ``expected.json`` has ``model`` (``file.Class``), ``construct`` (what the class is built from), ``config`` (of code
    without a ``config.json``), ``absent`` (names that old versions of Transformers had and that the code imports),
    ``unknown`` (why the graph cannot be whole, where it cannot), and ``facts``.
    """

    name: str

    @property
    def folder(self) -> Path:
        return FIXTURES / self.name

    @property
    def expected(self) -> dict[str, Any]:
        return json.loads((self.folder / "expected.json").read_text())

    @property
    def config(self) -> dict[str, Any]:
        path = self.folder / "config.json"
        return json.loads(path.read_text()) if path.is_file() else self.expected.get("config", {})

    def analyze(self) -> Analysis:
        if (self.folder / "config.json").is_file():
            return analyze(self.folder)
        file, _, cls = self.expected["model"].partition(".")
        target = f"{self.folder / file}.py"
        return analyze(f"{target}:{cls}" if self.expected.get("several") else target, config=self.config or None)

    def build(self) -> torch.nn.Module:
        """The model with random weights, out of training, built by the fixture's own code."""
        file, _, cls = self.expected["model"].partition(".")
        with self._importable():
            modules = [importlib.import_module(f"{self.name}.{file}")]
            if self.expected.get("config_class"):
                modules.append(
                    importlib.import_module(f"{self.name}.{self.expected['config_class'].partition('.')[0]}")
                )
            model_class = getattr(modules[0], cls)
            torch.manual_seed(0)
            model = self._construct(model_class, modules[-1])
        return randomized(model)

    def _construct(self, model_class: type, module: types.ModuleType) -> torch.nn.Module:
        match self.expected.get("construct", "config"):
            case "keywords":
                return model_class(**self.config)
            case "dict":
                return model_class(self.config)
            case "namespace":
                return model_class(argparse.Namespace(**self.config))
            case "nested":
                return model_class(
                    json.loads(json.dumps(self.config), object_hook=lambda held: types.SimpleNamespace(**held))
                )
        config_class = getattr(module, self.expected["config_class"].rpartition(".")[2])
        fields = {
            key: value for key, value in self.config.items() if key not in ("auto_map", "architectures", "model_type")
        }
        config = config_class(**fields)
        if isinstance(config, PretrainedConfig):
            config._attn_implementation = "eager"
            for key, value in {"pad_token_id": None, "use_cache": False, **fields}.items():
                if not hasattr(config, key):  # as it was before Transformers 5
                    setattr(config, key, value)
        return model_class(config)

    @contextlib.contextmanager
    def _importable(self) -> Iterator[None]:
        """The folder as a package, its files also importable by their bare names as scripts have it."""
        known = set(sys.modules)
        sys.path[:0] = [str(FIXTURES), str(self.folder)]
        lent = []
        for dotted in self.expected.get("absent", ()):
            dotted, _, answer = dotted.partition(":")
            module, _, name = dotted.rpartition(".")
            try:
                owner = importlib.import_module(module)
            except ModuleNotFoundError:
                owner = sys.modules[module] = types.ModuleType(module)
            if not hasattr(owner, name):
                setattr(owner, name, (lambda: False) if answer else None)
                lent.append((owner, name))
        try:
            yield
        finally:
            del sys.path[:2]
            for owner, name in lent:
                delattr(owner, name)
            for name in set(sys.modules) - known:
                if str(FIXTURES) in str(getattr(sys.modules[name], "__file__", None) or ""):
                    del sys.modules[name]


@functools.cache
def analyzed(name: str) -> Analysis:
    """The analysis of a fixture, for every test that looks at it."""
    return Fixture(name).analyze()


def randomized(model: torch.nn.Module) -> torch.nn.Module:
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape)
            parameter.copy_(0.2 * noise if parameter.dim() > 1 else parameter + 0.1 * noise)
    return model.eval()


def state(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Parameters and buffers by every name that they have, as they are before the model runs."""
    held = [*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False)]
    return {name: each.detach().clone() for name, each in held}


def logits(model: torch.nn.Module, tokens: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        output = model(tokens)
    if isinstance(output, dict):
        return output["logits"]
    return output[0] if isinstance(output, tuple) else output

"""Recorder, replay and fault on two small models: one as Transformers writes them, one as an engine runs them.

The engine's takes rows of several requests at once, packs its projections and hands the residual on.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from kunport.validation.modules.alignment import align
from kunport.validation.modules.fault import first_fault
from kunport.validation.modules.recorder import recorded
from kunport.validation.modules.recording import Recording
from kunport.validation.modules.replay import replay
from safetensors.torch import save_file
from torch import nn

WIDTH, VOCABULARY, LAYERS = 8, 16, 2


class PlainNorm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight, self.eps = nn.Parameter(1 + 0.3 * torch.randn(WIDTH)), 1e-6

    def forward(self, x: torch.Tensor, residual: torch.Tensor | None = None) -> Any:
        x = x if residual is None else x + residual
        normed = self.weight * x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps)
        return normed if residual is None else (normed, x)


class SiluAndMul(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate, up = x.chunk(2, -1)
        return nn.functional.silu(gate) * up


class ReferenceMLP(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate_proj, self.up_proj, self.down_proj = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.act_fn = nn.SiLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))


class ReferenceLayer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.mlp = PlainNorm(), ReferenceMLP()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.mlp(self.norm(x))


class Reference(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList(ReferenceLayer() for _ in range(LAYERS))
        self.norm = PlainNorm()

    def forward(self, input_ids: torch.Tensor, use_cache: bool) -> Any:
        x = self.embed(input_ids)
        for layer in self.layers:
            x = layer(x)
        return SimpleNamespace(logits=self.norm(x) @ self.embed.weight.T)


class EngineMLP(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate_up_proj, self.act_fn = nn.Linear(WIDTH, 2 * WIDTH), SiluAndMul()
        self.down_proj = nn.Linear(WIDTH, WIDTH)
        self.factor = 1.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down_proj(self.act_fn(self.gate_up_proj(x)) * self.factor)


class EngineLayer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.mlp = PlainNorm(), EngineMLP()

    def forward(self, x: torch.Tensor, residual: torch.Tensor | None) -> Any:
        if residual is None:
            normed, residual = self.norm(x), x
        else:
            normed, residual = self.norm(x, residual)
        return self.mlp(normed), residual


class LogitsProcessor(nn.Module):
    def forward(self, table: nn.Embedding, x: torch.Tensor) -> torch.Tensor:
        return x @ table.weight.T


class Mapper:
    def _map_name_with_shard(self, name: str) -> tuple[str, int | None]:
        for part, shard in (("gate_proj", 0), ("up_proj", 1)):
            if part in name:
                return name.replace(part, "gate_up_proj"), shard
        return name, None


class Engine(nn.Module):
    hf_to_vllm_mapper = Mapper()

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList(EngineLayer() for _ in range(LAYERS))
        self.norm, self.logits_processor = PlainNorm(), LogitsProcessor()

    def forward(self, input_ids: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        x, residual = self.embed(input_ids), None
        for layer in self.layers:
            x, residual = layer(x, residual)
        hidden: torch.Tensor = self.norm(x, residual)[0]
        return hidden

    def compute_logits(self, hidden: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.logits_processor(self.embed, hidden)
        return logits


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Reference, Engine, SimpleNamespace]:
    """A reference, an engine that has its weights, and the runner of the latter."""
    torch.manual_seed(0)
    reference, engine = Reference().eval(), Engine().eval()
    state = reference.state_dict()
    save_file({name: tensor.clone() for name, tensor in state.items()}, tmp_path / "model.safetensors")
    packed = {name: tensor for name, tensor in state.items() if "gate" not in name and "up_proj" not in name}
    for name in state:
        if "gate_proj" in name:
            both = [state[name], state[name.replace("gate", "up")]]
            packed[name.replace("gate_proj", "gate_up_proj")] = torch.cat(both)
    engine.load_state_dict(packed)
    runner = SimpleNamespace(get_model=lambda: engine, model_config=SimpleNamespace(model=str(tmp_path)))
    return reference, engine, runner


@torch.inference_mode()
def record(engine: Engine, runner: SimpleNamespace, keep: int | None = None) -> Recording:
    """Two requests: of five tokens and of three, then one more of each, the second first."""
    passes = (
        (["a", "b"], [0, 5, 8], [1, 2, 3, 4, 5, 6, 7, 8], [0, 1, 2, 3, 4, 0, 1, 2]),
        (["b", "a"], [0, 1, 2], [9, 10], [3, 5]),
    )
    with recorded(runner, keep) as recording:
        for names, bounds, ids, positions in passes:
            runner.input_batch = SimpleNamespace(num_reqs=2, req_ids=names)
            runner.query_start_loc = SimpleNamespace(np=np.array(bounds))
            engine(input_ids=torch.tensor(ids), positions=torch.tensor(positions))
    return recording


def judged(reference: Reference, recording: Recording) -> Any:
    wider = Reference().eval()
    wider.load_state_dict(reference.state_dict())
    truth = wider.double()
    compared = replay(truth, reference, recording, torch.float32)
    return compared, first_fault(compared, recording, align(truth, recording), truth, Path(__file__))


def test_what_is_right_has_no_fault_and_every_module_is_compared(
    pair: tuple[Reference, Engine, SimpleNamespace], tmp_path: Path
) -> None:
    reference, engine, runner = pair
    recording = record(engine, runner)
    recording.save(tmp_path / "recording.pt")
    compared, fault = judged(reference, Recording.load(tmp_path / "recording.pt"))
    assert fault is None
    places = {place.point.adapter for place in compared}
    parts = ("norm", "mlp", "mlp.gate_up_proj", "mlp.down_proj")
    assert {f"layers.{layer}.{part}" for layer in range(LAYERS) for part in parts} <= places
    assert {"embed", "norm", "layers.0", "logits_processor"} <= places
    assert recording.token[recording.rows(0)].tolist() == [1, 2, 3, 4, 5, 10]
    assert recording.token[recording.rows(1)].tolist() == [6, 7, 8, 9]


def epsilon(engine: Engine) -> None:
    engine.layers[1].norm.eps = 1e-4  # type: ignore[union-attr, assignment]


def exchanged(engine: Engine) -> None:
    weight = engine.layers[1].mlp.gate_up_proj.weight  # type: ignore[union-attr]
    weight.data = weight.data.roll(WIDTH, 0)  # type: ignore[union-attr, operator]


def activation(engine: Engine) -> None:
    engine.layers[0].mlp.act_fn.forward = lambda x: nn.functional.gelu(x.chunk(2, -1)[0]) * x.chunk(2, -1)[1]  # type: ignore


def glue(engine: Engine) -> None:
    engine.layers[0].mlp.factor = 0.5  # type: ignore[union-attr, assignment]


def one_row(engine: Engine) -> None:
    """Only what is generated is wrong."""
    down = engine.layers[1].mlp.down_proj  # type: ignore[union-attr]
    down.register_forward_hook(lambda *call: call[2] * 1.001 if len(call[2]) == 2 else None)  # type: ignore


def not_finite(engine: Engine) -> None:
    engine.norm.weight.data[3] = float("nan")


@pytest.mark.parametrize(
    ("plant", "module"),
    [
        (epsilon, "layers.1.norm"),
        (exchanged, "layers.1.mlp.gate_up_proj"),
        (activation, "layers.0.mlp.act_fn"),
        (glue, "layers.0.mlp"),
        (one_row, "layers.1.mlp.down_proj"),
        (not_finite, "norm"),
    ],
)
def test_the_module_at_fault_is_named_with_its_lines(
    pair: tuple[Reference, Engine, SimpleNamespace], plant: Callable[[Engine], None], module: str
) -> None:
    reference, engine, runner = pair
    plant(engine)
    _, fault = judged(reference, record(engine, runner))
    assert fault is not None
    assert fault.module == module
    assert fault.kind == type(engine.get_submodule(module)).__name__
    assert fault.adapter_line.startswith(f"{__file__}:")
    assert Path(__file__).name in fault.reference_line
    if plant is one_row:
        assert fault.position in (3, 5)


def test_the_recorder_changes_nothing_and_keeps_only_what_it_is_told(
    pair: tuple[Reference, Engine, SimpleNamespace],
) -> None:
    _, engine, runner = pair
    ids = torch.tensor([1, 2, 3])
    before = engine(ids, torch.arange(3))
    recording = record(engine, runner, keep=1)
    assert torch.equal(engine(ids, torch.arange(3)), before)
    assert recording.requests == [0]
    assert all(len(out) == 6 for call in recording.calls.values() for out in call.outputs)
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in engine.modules())

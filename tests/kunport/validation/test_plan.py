from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from checkpoints import write_adapter, write_checkpoint
from kunport.errors import KunportError
from kunport.validation.plan import Plan, make_plan


def plan(adapter: Path | None, checkpoint: Path, **changes: Any) -> Plan:
    options: dict[str, Any] = {"batch_sizes": (1, 2, 4), "dtype": "float32", "prompts": None, "seed": 0, "tokens": 4}
    return make_plan(adapter, checkpoint, **(options | {"trust_remote_code": False} | changes))


def test_a_plan_for_a_small_model(tmp_path: Path) -> None:
    made = plan(write_adapter(tmp_path / "adapter"), write_checkpoint(tmp_path / "checkpoint"), batch_sizes=(4, 1, 4))
    assert made.batch_sizes == (1, 4)
    assert len(made.prompts) == 4
    assert made.prompt_kind == "random"
    assert made.top is None
    assert made.longest == max(len(prompt) for prompt in made.prompts) + 4
    assert made.adapter is not None
    job = made.engine_job(tmp_path)
    assert job["context"] == made.longest
    assert job["top"] == -1
    assert job["prompts"] == made.job(tmp_path)["prompts"]


def test_a_large_vocabulary_is_compared_in_part(tmp_path: Path) -> None:
    made = plan(None, write_checkpoint(tmp_path, vocab_size=50_000))
    assert made.top == made.engine_job(tmp_path)["top"] == 20


def test_an_output_folder_with_several_adapters_gives_the_right_one(tmp_path: Path) -> None:
    write_adapter(tmp_path / "adapters/olmo2", "Olmo2ForCausalLM")
    mine = write_adapter(tmp_path / "adapters/llama")
    made = plan(tmp_path / "adapters", write_checkpoint(tmp_path / "checkpoint"))
    assert made.adapter is not None
    assert made.adapter.folder == mine.resolve()


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"dtype": "float8"}, "float8"),
        ({"batch_sizes": ()}, "positive"),
        ({"batch_sizes": (0, 1)}, "positive"),
        ({"tokens": 0}, "0 tokens"),
        ({"tokens": 128}, "context of 128"),
        ({"prompts": [[1]]}, "batch of 4"),
        ({"prompts": [[1], [], [2], [3]]}, "at least one token"),
        ({"prompts": [[1]] * 3 + [[64]]}, "token 64"),
        ({"prompts": [[1]] * 3 + [[-1]]}, "token"),
        ({"prompts": [[1]] * 3 + [[5] * 126]}, "130 tokens"),
    ],
)
def test_a_wrong_call_is_refused(tmp_path: Path, changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(KunportError, match=problem):
        plan(None, write_checkpoint(tmp_path), **changes)


def test_the_adapter_must_be_there_and_for_the_checkpoint(tmp_path: Path) -> None:
    checkpoint = write_checkpoint(tmp_path / "checkpoint")
    with pytest.raises(KunportError, match="no adapter folder"):
        plan(tmp_path / "none", checkpoint)
    with pytest.raises(KunportError, match=r"adapter\.json"):
        plan(checkpoint, checkpoint)
    other = write_adapter(tmp_path / "olmo2", "Olmo2ForCausalLM")
    with pytest.raises(KunportError, match="adapter for Olmo2ForCausalLM, and the checkpoint is a LlamaForCausalLM"):
        plan(other, checkpoint)


def test_the_checkpoint_must_be_one(tmp_path: Path) -> None:
    with pytest.raises(KunportError, match=r"no config\.json"):
        plan(None, tmp_path / "none")
    broken = write_checkpoint(tmp_path / "broken")
    (broken / "config.json").write_text("{")
    with pytest.raises(KunportError, match="not JSON"):
        plan(None, broken)
    (broken / "config.json").write_text("[]")
    with pytest.raises(KunportError, match="no architecture"):
        plan(None, broken)
    with pytest.raises(KunportError, match="vocab_size"):
        plan(None, write_checkpoint(tmp_path / "unsized", vocab_size=None))
    cut = write_checkpoint(tmp_path / "cut")
    weights = cut / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    with pytest.raises(KunportError, match=r"model\.safetensors"):
        plan(None, cut)


def test_a_context_that_is_not_given_does_not_bound(tmp_path: Path) -> None:
    made = plan(None, write_checkpoint(tmp_path, max_position_embeddings=None), prompts=[[3] * 500] * 4)
    assert made.longest == 504
    assert made.prompt_kind == "given"


def test_fields_of_a_text_model_inside_a_larger_one_are_found(tmp_path: Path) -> None:
    made = plan(None, write_checkpoint(tmp_path, vocab_size=None, text_config={"vocab_size": 32}))
    assert made.checkpoint.vocabulary == 32


def test_the_cache_holds_the_batch(tmp_path: Path) -> None:
    deep = plan(None, write_checkpoint(tmp_path, num_hidden_layers=64, hidden_size=8192))
    keys_and_values = 2 * 4 * 64 * 8192 * deep.longest * 4
    assert deep.engine_job(tmp_path)["kv_cache_bytes"] >= keys_and_values

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kunport.validation.prompts import (
    ragged_lengths,
    random_prompts,
    special_tokens,
    text_prompts,
    unreached_windows,
)
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace


@given(st.integers(1, 40), st.none() | st.integers(2, 300), st.integers(1, 300))
def test_every_length_leaves_room(count: int, context: int | None, tokens: int) -> None:
    if context is not None and tokens >= context:
        with pytest.raises(ValueError, match=str(context)):
            ragged_lengths(count, context, tokens)
        return
    lengths = ragged_lengths(count, context, tokens)
    assert len(lengths) == count
    assert all(length >= 1 and (context is None or length + tokens <= context) for length in lengths)


def test_every_batch_is_ragged_and_pages_are_filled_crossed_and_hardly_touched() -> None:
    lengths = ragged_lengths(8, 1024, 16)
    assert all(len(set(lengths[:size])) == size for size in (2, 4, 8))
    for page in (16, 32):
        assert any(length % page == 0 for length in lengths)
        assert any(length % page == 1 and length > page for length in lengths)


@given(st.lists(st.integers(1, 20), max_size=5), st.integers(2, 60), st.integers(0, 99), st.data())
def test_prompts_hold_allowed_tokens_only(lengths: list[int], vocabulary: int, seed: int, data: st.DataObject) -> None:
    avoid = data.draw(st.sets(st.integers(-5, 70)))
    allowed = set(range(vocabulary)) - avoid
    if not allowed:
        with pytest.raises(ValueError, match="special"):
            random_prompts(lengths, vocabulary, seed, avoid)
        return
    prompts = random_prompts(lengths, vocabulary, seed, avoid)
    assert [len(prompt) for prompt in prompts] == lengths
    assert {token for prompt in prompts for token in prompt} <= allowed
    assert prompts == random_prompts(lengths, vocabulary, seed, avoid)


def test_another_seed_gives_other_prompts() -> None:
    assert random_prompts([30], 256, 0, ()) != random_prompts([30], 256, 1, ())


def test_special_tokens_are_found_single_and_in_lists() -> None:
    config = {"eos_token_id": [2, 7], "pad_token_id": None, "bos_token_id": 1, "vocab_size": 256, "bad_token_ids": [9]}
    assert special_tokens(config) == {1, 2, 7, 9}


def test_a_window_that_no_request_leaves_is_noted() -> None:
    assert len(unreached_windows({"sliding_window": 4096}, longest=113)) == 1
    assert unreached_windows({"sliding_window": 8}, longest=113) == []
    assert unreached_windows({"sliding_window": None}, longest=113) == []
    assert unreached_windows({"sliding_window": 4096, "use_sliding_window": False}, longest=113) == []


def test_text_prompts_are_slices_of_the_page_for_a_checkpoint_with_a_tokenizer(tmp_path: Path) -> None:
    tokenizer = tmp_path / "tokenizer.json"
    words = Tokenizer(WordLevel({"[UNK]": 0, "the": 1, "of": 2, "a": 3}, unk_token="[UNK]"))
    words.pre_tokenizer = Whitespace()
    words.save(str(tokenizer))
    prompts = text_prompts([9, 1, 30], tokenizer, seed=0)
    assert prompts is not None
    assert [len(prompt) for prompt in prompts] == [9, 1, 30]
    assert {token for prompt in prompts for token in prompt} <= {0, 1, 2, 3}
    assert text_prompts([9, 1, 30], tokenizer, seed=1) != prompts


@pytest.mark.parametrize("content", ["", "{", '{"version": "1.0"}'])
def test_no_text_prompts_without_a_readable_tokenizer(content: str, tmp_path: Path) -> None:
    tokenizer = tmp_path / "tokenizer.json"
    tokenizer.write_text(content)
    assert text_prompts([3], tokenizer, seed=0) is None


def test_no_text_prompts_longer_than_the_page(tmp_path: Path) -> None:
    tokenizer = tmp_path / "tokenizer.json"
    words = Tokenizer(WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    words.save(str(tokenizer))
    assert text_prompts([100_000], tokenizer, seed=0) is None

"""The requests of a validation: ragged, seeded, and the same for reference and engine.

Text where the checkpoint has a tokenizer, random ids where it has none.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer

# Lengths in tokens. Any prefix of the list is ragged, one prompt is a single token, one fills pages of 16, 32 and 64
# exactly, and one ends a token into a page.
LENGTHS = (23, 5, 64, 1, 97, 9, 48, 17)


def ragged_lengths(count: int, context: int | None, tokens: int, wanted: Sequence[int] = LENGTHS) -> list[int]:
    """``count`` lengths of those wanted, in turn.

    Each leaves room for ``tokens`` more within ``context`` (None where it is not known).

    Raises:
        ValueError: the context does not hold one prompt token and the continuation.
    """
    room = max(wanted) if context is None else context - tokens
    if room < 1:
        raise ValueError(f"a context of {context} tokens does not hold a prompt and {tokens} generated tokens")
    return [min(wanted[index % len(wanted)], room) for index in range(count)]


def random_prompts(lengths: Iterable[int], vocabulary: int, seed: int, avoid: Collection[int]) -> list[list[int]]:
    """Prompts of these lengths, of ids drawn from ``range(vocabulary)`` without those to avoid (padding, end of text).

    Raises:
        ValueError: no id is left.
    """
    ids = np.setdiff1d(np.arange(vocabulary), list(avoid))
    if not ids.size:
        raise ValueError("every token of the vocabulary is a special one")
    random = np.random.default_rng(seed)
    return [[int(token) for token in random.choice(ids, size=length)] for length in lengths]


def text_prompts(lengths: Iterable[int], tokenizer: Path, seed: int) -> list[list[int]] | None:
    """Prompts of these lengths, cut out of a page of prose, code and letters, from places that the seed draws.

    A trained model deserves text: on random ids its activations, and with them the rounding of any float32
    implementation, are far larger than in use. None where the tokenizer cannot be read or the page is too short.
    """
    text = (Path(__file__).parent / "text.txt").read_text(encoding="utf-8")
    try:
        ids = Tokenizer.from_file(str(tokenizer)).encode(text, add_special_tokens=False).ids
    except Exception:  # the library's own errors share no class
        return None
    random = np.random.default_rng(seed)
    starts = [(length, len(ids) - length) for length in lengths]
    if any(room < 0 for _, room in starts):
        return None
    return [ids[start : start + length] for length, room in starts for start in [int(random.integers(room + 1))]]


def special_tokens(config: Mapping[str, Any]) -> set[int]:
    """The ids that a configuration names as special: ``bos_token_id`` and its kin, single or in lists."""
    found: set[int] = set()
    for name, value in config.items():
        if name.endswith(("token_id", "token_ids")):
            found.update(item for item in (value if isinstance(value, list) else [value]) if isinstance(item, int))
    return found


def unreached_windows(config: Mapping[str, Any], longest: int) -> list[str]:
    """Notes on attention windows that no request is long enough to leave, so that their effect is not tested."""
    if config.get("use_sliding_window") is False:
        return []
    return [
        f"{name} is {config[name]} and the longest request has {longest} tokens: no key ever left the window."
        for name in ("sliding_window", "attention_chunk_size", "attention_window_size")
        if isinstance(config.get(name), int) and config[name] >= longest
    ]

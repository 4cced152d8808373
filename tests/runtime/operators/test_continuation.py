"""A sequence may come in pieces: what is left behind after the first is all that the second needs.

So chunked prefill, decoding and preemption give the tokens of one long prompt.
"""

from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from kunport_runtime.operators.binding import bind
from kunport_runtime.operators.check import copy_arguments
from kunport_runtime.operators.draw import Draw
from kunport_runtime.operators.registry import registry

STATES = [each.name for each in registry.contracts() if each.family == "state"]


def starts_of(lengths):
    return torch.tensor([sum(lengths[:index]) for index in range(len(lengths) + 1)], dtype=torch.int32)


def tokens_of(contract, arguments, rows):
    """The arguments with these tokens only."""
    chosen = {
        name: arguments[name][rows]
        for name, tensor in contract.tensors.items()
        if tensor.shape[0].name == "tokens" and arguments[name] is not None
    }
    return {**arguments, **chosen}


@pytest.mark.parametrize("name", STATES)
def test_a_state_continues_where_it_was_left(name):
    contract = registry.contract(name)
    for case in contract.cases(Draw(torch.float32, seed=5)):
        whole = copy_arguments(contract, bind(contract, case.arguments).arguments)
        pieces = copy_arguments(contract, whole)
        contract.reference(**whole)
        starts = whole["query_start_loc"].tolist()
        lengths = [end - start for start, end in pairwise(starts)]
        first = [length // 2 for length in lengths]
        out = torch.full_like(whole["out"], torch.nan)
        for part in ("first", "second"):
            counts = first if part == "first" else [a - b for a, b in zip(lengths, first, strict=True)]
            begins = starts[:-1] if part == "first" else [a + b for a, b in zip(starts[:-1], first, strict=True)]
            rows = [at for begin, count in zip(begins, counts, strict=True) for at in range(begin, begin + count)]
            arguments = tokens_of(contract, pieces, rows)
            arguments["query_start_loc"] = starts_of(counts)
            if part == "second":
                arguments["has_initial_state"] = pieces["has_initial_state"] | torch.tensor(first).bool()
            contract.reference(**arguments)
            out[rows] = arguments["out"]
        assert torch.allclose(out, whole["out"], rtol=1e-5, atol=1e-5)
        for state in contract.updated:
            assert torch.allclose(pieces[state], whole[state], rtol=1e-5, atol=1e-5)


@settings(max_examples=15)
@given(st.integers(1, 20), st.data())
def test_attention_in_chunks_is_attention(length, data):
    """Through the cache: each chunk is written, and attends to all before it."""
    cut = data.draw(st.integers(0, length))
    window = data.draw(st.sampled_from((0, 1, 5)))
    draw = Draw(torch.float32, seed=length)
    query, key, value = draw.normal(length, 4, 16), draw.normal(length, 2, 16), draw.normal(length, 2, 16)
    blocks = draw.permutation(8, torch.int32)
    block_size = 4
    results = []
    for chunks in ([(0, length)], [(0, cut), (cut, length)]):
        caches = [torch.full((8, block_size, 2, 16), torch.nan) for _ in range(2)]
        out = torch.full_like(query, torch.nan)
        for start, end in chunks:
            slots = torch.tensor(
                [blocks[at // block_size] * block_size + at % block_size for at in range(start, end)]
            ).long()
            write, attend = registry.contract("cache_write"), registry.contract("paged_attention")
            caching = {"key_cache": caches[0], "value_cache": caches[1]}
            rows = {"key": key[start:end], "value": value[start:end], "slot_mapping": slots}
            write.reference(**bind(write, {**caching, **rows}).arguments)
            arguments = {
                **caching,
                "out": out[start:end],
                "query": query[start:end],
                "block_tables": blocks.unsqueeze(0),
                "query_start_loc": torch.tensor([0, end - start], dtype=torch.int32),
                "seq_lens": torch.tensor([end], dtype=torch.int32),
                "max_query_len": end - start,
                "max_seq_len": end,
                "scale": 0.25,
                "window": window,
            }
            attend.reference(**bind(attend, arguments).arguments)
        results.append(out)
    assert torch.allclose(results[0], results[1], rtol=1e-5, atol=1e-6)
    assert not results[0].isnan().any()


@pytest.mark.parametrize("name", ["paged_attention", "mla_attention"])
def test_a_batch_is_its_sequences_one_by_one(name):
    contract = registry.contract(name)
    for case in contract.cases(Draw(torch.float32, seed=2)):
        whole = copy_arguments(contract, bind(contract, case.arguments).arguments)
        alone = copy_arguments(contract, whole)
        contract.reference(**whole)
        starts = whole["query_start_loc"].tolist()
        for index, (start, end) in enumerate(pairwise(starts)):
            arguments = tokens_of(contract, alone, slice(start, end))
            arguments["query_start_loc"] = starts_of([end - start])
            arguments |= {key: alone[key][index : index + 1] for key in ("seq_lens", "block_tables")}
            contract.reference(**arguments)
        assert torch.allclose(alone["out"], whole["out"], rtol=1e-5, atol=1e-6, equal_nan=True)

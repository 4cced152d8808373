"""Pools by tag: what is cut, counted, given back, put to sleep and refused."""

import gc
import itertools
import threading

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from kunport_runtime.errors import KunportRuntimeError
from kunport_runtime.memory.blocks import ALIGNMENT, Blocks, aligned
from kunport_runtime.memory.budget import Budget, MemoryBudgetError, parse_size
from kunport_runtime.memory.pools import Pools

MIB = 1 << 20


def pools(limit: int | None = None, available: int = 1 << 40) -> Pools:
    return Pools(Budget(limit, lambda: available))


def resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 700)), max_size=60))
def test_blocks_never_overlap_and_always_add_up(steps):
    blocks = Blocks(64 * ALIGNMENT)
    held: list[tuple[int, int]] = []
    for give, size in steps:
        if give and held:
            blocks.give(held.pop(size % len(held))[0])
        elif (start := blocks.take(size)) is not None:
            held.append((start, size))
        ends = sorted((start, start + aligned(size)) for start, size in held)
        assert all(before[1] <= after[0] for before, after in itertools.pairwise(ends))
        assert all(start % ALIGNMENT == 0 and end <= blocks.size for start, end in ends)
        assert blocks.used == sum(size for _, size in held)
        assert blocks.used + blocks.padding + blocks.free == blocks.size
    for start, _ in held:
        blocks.give(start)
    assert blocks.take(blocks.size) == 0  # all gaps have joined


def test_tensors_are_ordinary_and_their_memory_comes_back():
    pool = pools().pool("weights")
    a = pool.empty((3, 5), torch.float32)
    b = pool.empty((4, 6), torch.bfloat16, stride=(1, 4))
    a.fill_(2.0)
    b.fill_(3.0)
    assert (b.stride(), a.is_contiguous(), a._base) == ((1, 4), True, None)
    assert a.sum() == 30
    assert b.float().sum() == 72
    assert torch.nn.Parameter(a).requires_grad
    assert pool.account().used == 3 * 5 * 4 + 4 * 6 * 2
    view = a[1:]
    del a, b
    gc.collect()
    assert pool.account().used == 60  # the view keeps its base's memory
    assert view.sum() == 20
    del view
    account = pool.account()
    assert (account.used, account.tensors, account.peak) == (0, 0, 108)
    assert account.reserved == account.free > 0
    assert pool.trim() == account.reserved
    assert pool.account().reserved == 0


def test_a_release_in_another_thread_counts():
    pool = pools().pool("kv_cache")
    box = [pool.empty((1000,), torch.float32)]
    thread = threading.Thread(target=box.clear)
    thread.start()
    thread.join()
    assert pool.account().used == 0


def test_reserved_memory_is_used_before_the_pool_grows():
    pool = pools().pool("kv_cache")
    pool.reserve(4 * MIB)
    held = [pool.empty((MIB,), torch.uint8) for _ in range(4)]
    assert pool.account().reserved == 4 * MIB
    held.append(pool.empty((MIB,), torch.uint8))
    assert pool.account().reserved == 5 * MIB
    assert pool.account().used == 5 * MIB


def test_what_torch_makes_within_a_context_is_the_pools():
    everything = pools()
    with everything.allocate("weights"):
        made = [
            torch.empty(10, 10),
            torch.zeros(5, dtype=torch.int64),
            torch.ones(7),
            torch.arange(9).to(torch.float32),
            torch.randn(4, 4).t().contiguous(),
            torch.tensor(1.0),
        ]
        with everything.allocate("kv_cache"):
            cache = torch.zeros(100, dtype=torch.int8)
        view = made[0][2:]
        made[0].fill_(1.0)
        layer = torch.nn.Linear(8, 8)
    after = torch.empty(1000)
    gc.collect()
    held = [*made, layer.weight, layer.bias]
    accounts = {account.tag: account for account in everything.accounts()}
    assert accounts["weights"].used == sum(each.untyped_storage().nbytes() for each in held)
    assert accounts["weights"].tensors == len(held)
    assert accounts["kv_cache"].used == cache.numel()
    assert int(cache.sum()) + int(made[1].sum()) == 0
    assert view.sum() == 80
    assert after.numel() == 1000


def test_what_a_context_is_given_stays_where_it_was():
    everything = pools()
    given_in = torch.ones(6)
    with everything.allocate("weights"):
        assert given_in.view(2, 3).untyped_storage().data_ptr() == given_in.untyped_storage().data_ptr()
        assert given_in.mul_(2) is given_in
    assert everything.pool("weights").account().used == 0


def test_sleep_gives_memory_back_and_wake_brings_contents_back():
    everything = pools()
    with everything.allocate("weights"):
        weights = torch.arange(8 * MIB, dtype=torch.int32)
        small = torch.full((3,), 7.0)
    with everything.allocate("kv_cache"):
        cache = torch.ones(16 * MIB, dtype=torch.uint8)
    gc.collect()
    address, before = weights.data_ptr(), resident()
    assert everything.sleep(level=1) == 32 * MIB + 12 + 16 * MIB
    assert before - resident() > 40 * MIB
    assert all(account.asleep for account in everything.accounts())
    everything.wake(["weights"])
    assert [account.asleep for account in everything.accounts()] == [False, True]
    assert torch.equal(weights, torch.arange(8 * MIB, dtype=torch.int32))
    assert small.tolist() == [7.0] * 3
    everything.wake(None)
    assert weights.data_ptr() == address  # graphs and views still hold
    assert int(cache.max()) == 0  # a cache begins anew
    assert everything.sleep(level=2) > 0
    everything.wake(None)
    assert int(weights.max()) == 0


def test_the_budget_is_named_before_it_is_exceeded():
    everything = pools(limit=3 * MIB)
    everything.pool("weights").reserve(2 * MIB)
    with pytest.raises(MemoryBudgetError, match=r"kv_cache needs 1\.50 MiB more and 1\.00 MiB .* weights 2\.00 MiB"):
        everything.pool("kv_cache").empty((3 * MIB // 2,), torch.uint8)
    assert everything.budget.reserved == {"weights": 2 * MIB}
    everything.trim()
    everything.pool("kv_cache").empty((3 * MIB // 2,), torch.uint8)


def test_the_device_is_asked_as_well():
    with pytest.raises(MemoryBudgetError, match=r"the device has 1\.00 KiB left"):
        pools(available=1024).pool("weights").reserve(1)


@pytest.mark.parametrize(("text", "size"), [("8GiB", 8 << 30), ("512m", 512 << 20), ("1.5 kb", 1536), ("77", 77)])
def test_sizes(text, size):
    assert parse_size(text) == size


def test_what_is_no_size_is_named():
    with pytest.raises(KunportRuntimeError, match=r"'much' is no size.*8GiB"):
        parse_size("much")

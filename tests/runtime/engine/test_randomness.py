"""Random numbers that do not depend on the device, the batch, or what was discarded."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from kunport_runtime.engine.randomness import HostRandom, RequestGenerator, uniform

SEEDS = st.integers(min_value=-(2**63), max_value=2**64 - 1)


@given(seed=st.integers(min_value=0, max_value=2**63 - 1), draws=st.integers(1, 5), undone=st.integers(0, 4))
def test_a_draw_that_is_taken_back_leaves_no_trace(seed, draws, undone):
    plain, rewound = RequestGenerator(seed), RequestGenerator(seed)
    expected = [plain.draw() for _ in range(draws)]
    for _ in range(undone):
        rewound.draw()
        rewound.set_offset(rewound.get_offset() - 4)  # as vLLM does
    assert [rewound.draw() for _ in range(draws)] == expected


@given(seed=SEEDS, index=st.integers(0, 2**40))
def test_numbers_are_below_one_in_float32(seed, index):
    number = uniform(seed, index)
    assert 0 <= number < 1
    assert number == float(np.float32(number)) == uniform(seed, index)


def test_numbers_are_uniform_and_not_related():
    numbers = np.array([[uniform(seed, index) for index in range(200)] for seed in range(50)])
    assert abs(numbers.mean() - 0.5) < 0.01
    assert abs(numbers.var() - 1 / 12) < 0.005
    assert abs(np.corrcoef(numbers[:, :-1].ravel(), numbers[:, 1:].ravel())[0, 1]) < 0.03
    assert abs(np.corrcoef(numbers[:-1].ravel(), numbers[1:].ravel())[0, 1]) < 0.03


def test_a_request_with_a_seed_draws_the_same_in_every_batch():
    alone = HostRandom(1).rows(1, {0: RequestGenerator(5)})
    among = HostRandom(2).rows(4, {2: RequestGenerator(5)})
    assert alone[0] == among[2]


def test_ranks_that_run_the_same_batches_draw_alike():
    batches = [(3, {}), (5, {1: 9}), (2, {0: 9})]
    of_rank = []
    for _ in range(2):
        random, generator = HostRandom(3), RequestGenerator(9)
        of_rank.append(torch.cat([random.rows(count, dict.fromkeys(seeded, generator)) for count, seeded in batches]))
    assert torch.equal(*of_rank)
    assert of_rank[0].unique().numel() == of_rank[0].numel()

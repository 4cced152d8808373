"""Prints, as JSON, whether choices of several blocks come in the order of a stable sort: [choices, experts, right].

Run with TRITON_INTERPRET=1, which Triton reads as it is imported: hence a process of its own.
"""

import json

import torch
from kunport_runtime.providers.triton.expert_order import by_expert

for tokens, top_k, experts, without in (
    (1, 1, 1, 0),
    (100, 3, 5, 0),
    (130, 4, 40, 100),
    (17, 8, 300, 20),
    (64, 2, 4, 128),
):
    ids = torch.randint(experts, (tokens, top_k), generator=torch.Generator().manual_seed(tokens)).to(torch.int32)
    ids.view(-1)[:without] = -1
    order, starts = by_expert(ids, experts)
    flat = ids.reshape(-1)
    expected = [i for i in flat.sort(stable=True).indices.tolist() if flat[i] >= 0]
    ends = [int((flat.ge(0) & (flat < expert)).sum()) for expert in range(experts + 1)]
    right = order[: len(expected)].tolist() == expected and starts.tolist() == ends
    print(json.dumps([tokens * top_k, experts, right]))

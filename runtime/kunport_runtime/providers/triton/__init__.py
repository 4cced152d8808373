"""Kernels in Triton: one family a file, the launcher beside its kernels, plain functions on torch tensors.

They use no instruction of one vendor: Kunlun's Triton must compile them. What differs from device to device (block
sizes, warps, pipeline stages, tensor descriptors) is data, in `tuning/`, looked up by operator, dtype and shape.

Shape letters, here and in the kernels: T tokens of the batch, B sequences, H query heads, KH key-value heads,
G = H / KH query heads a key-value head, D head size of queries and keys, DV of values, S slots of the cache.
"""

import os

if os.environ.get("TRITON_INTERPRET") == "1":
    from kunport_runtime.providers.triton import interpreted

    interpreted.mend()

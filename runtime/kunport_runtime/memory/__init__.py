"""Memory pools by tag: what holds weights, what holds the KV cache, how much, and giving it back.

A `Pool` cuts tensors from segments of memory that it reserves; `Pools` has one for each tag, and one budget for all.
"""

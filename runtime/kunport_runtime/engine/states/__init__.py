"""Layers that keep something of a sequence besides keys and values, over vLLM's state cache.

- ``cache``: the states of one decoder layer, a page a sequence, which vLLM hands out and takes back;
- ``metadata``: which tokens and which page belong together in a batch;
- ``layer``: what all layers share; ``convolution``, ``scans``, ``memories``, ``recurrences``: the layers, each one
  operator;
- ``model``: what a model with such layers tells the engine.
"""

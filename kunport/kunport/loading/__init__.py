"""Holds the weight proof against the truth: what Transformers says when it really loads the same files.

``python -m kunport.loading [CASE ...]`` does it for tiny checkpoints of the corpus, whole ones and ones with a planted
fault. `planted` damages a checkpoint, `loader` loads it in a child process, `agreement` compares.
"""

"""Sweeps over every text decoder of the corpus: what the analysis reads, against what the library computes.

``python -m kunport.corpus graphs`` runs the graphs of the tiny models and compares their logits with those of
Transformers in eager mode, without a cache and with one. ``python -m kunport.corpus unknowns`` counts what is not
understood.
"""

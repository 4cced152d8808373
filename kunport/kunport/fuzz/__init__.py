"""Hostile input by the thousand: mutated modeling files and configurations must end in a report or a refusal.

``python -m kunport.fuzz --cases N --seed S`` runs them. Case number n of a seed is always the same: `cases` makes it,
`grammar`, `noise` and `configs` are the ways to mutate. `worker` runs and judges it under limits, `run` keeps the
worker alive, and `log` remembers what ran.
"""

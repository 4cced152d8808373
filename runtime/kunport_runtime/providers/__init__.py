"""Who implements operators: one folder a provider, whose ``implementations.py`` lists what it has.

``torch`` needs no list: it is the references of the contracts, and complete.
"""

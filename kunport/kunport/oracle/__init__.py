"""The oracle: labels for the facts of a model, from the built model itself.

It shares no code with the analysis of source: it builds the tiny Hugging Face model, runs it, and finds out by its
module tree and by numeric probes what each part does. Where a probe cannot tell, the label is absent and says why.
``python -m kunport.oracle`` compares the labels with what the analysis states.
"""

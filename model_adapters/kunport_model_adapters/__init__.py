"""What serves adapters in vLLM: the registry that finds them, and the support that they need at run time.

Importing this package costs nothing: vLLM's plugin loader does it in every process.
"""

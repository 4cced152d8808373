"""Where it starts: the first module that computes something else than the reference's, though it gets the same.

The engine records what goes into every module of the adapter and what comes out of it (`recorder`). The reference then
runs with the engine's own values in place of what its modules receive and return (`replay`): whatever differs is
computed wrong at that place, since nothing that went wrong earlier reaches it, and rounding does not add up.
"""

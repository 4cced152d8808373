"""Whether a model runs in the engine, and what the engine will use for its operators."""

from kunport.variants.verdict.judge import Use, Verdict, judge

__all__ = ["Use", "Verdict", "judge"]

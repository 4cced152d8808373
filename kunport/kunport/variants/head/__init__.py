"""Variants of the head: from the last hidden states to the logits."""

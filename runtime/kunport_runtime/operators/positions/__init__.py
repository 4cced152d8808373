"""Position embeddings, and what is fused with them."""

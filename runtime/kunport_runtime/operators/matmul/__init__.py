"""Matrix products, plain and quantised."""

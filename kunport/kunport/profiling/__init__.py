"""What a server's operators took: sums by operator and by layer, a page, and a trace."""

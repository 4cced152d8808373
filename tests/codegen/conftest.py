"""Puts this folder on the path, so that tests in its subfolders can import `graph_builder`."""

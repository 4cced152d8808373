"""The version of kunport, as pyproject.toml has it: asking the installed package's metadata takes 50 ms."""

VERSION = "0.1.0"

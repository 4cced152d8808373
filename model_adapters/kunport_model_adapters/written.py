"""Configurations whose layers have values of their own, as their file has them."""

from __future__ import annotations

from typing import Any


class WrittenConfig:
    """A configuration of Transformers that does not mind being asked for what some layers have otherwise.

    Attributes:
        per_layer_config: number of a layer, as a text -> what it has otherwise.
    """

    def __init__(self, config: Any) -> None:
        written = config.to_dict()
        self._config = config
        self.__dict__.update({name: written[name] for name in (*config.per_layer_attributes, "per_layer_config")})

    def __getattr__(self, name: str) -> Any:
        return getattr(self._config, name)


def as_written(config: Any) -> Any:
    """The configuration, where layers have values of their own as a `WrittenConfig`: Transformers raises instead."""
    return WrittenConfig(config) if getattr(config, "is_heterogeneous", False) else config

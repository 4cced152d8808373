"""What the registry takes: the contracts that the installed wheel, or its simulator, implements."""

from kunport_runtime.providers.vendor.offers import implementations
from kunport_runtime.providers.vendor.wheel import installed_wheel

IMPLEMENTATIONS = implementations(installed_wheel())

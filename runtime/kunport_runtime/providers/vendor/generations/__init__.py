"""The tables of the vendor's generations, which `kunport_runtime.providers.vendor.generation` reads."""

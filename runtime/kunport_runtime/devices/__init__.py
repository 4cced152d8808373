"""The hardware abstraction: one small interface, and the devices behind it.

`device` is the interface; which device a process runs on is said beside the runtime, in `kunport_activation`.
"""

"""The hardware abstraction: one small interface, and the devices behind it.

`selection` says which device a process runs on and imports nothing; `device` is the interface.
"""

"""kunport's contracts through the vendor's operators, which come as wheels and know nothing of these contracts.

A family of operators is a file, which says how its arguments become the vendor's. `wheel` finds what is installed, by
the table of its generation in `generations/`; no other file knows a vendor's name. All of it was written from public
call sites and runs on the simulator: nothing here was run on a P800. docs/kunlun.md has the sources.
"""

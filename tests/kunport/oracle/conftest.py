"""Being here makes this folder importable: the toy modules beside this file serve the tests of several probes."""

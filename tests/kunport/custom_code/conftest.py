"""Being here makes this folder importable: the modules beside this file serve the tests of several rooms."""

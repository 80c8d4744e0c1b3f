"""Statistical self-tests: whether this machine, with its BLAS and JAX, gives what it should."""

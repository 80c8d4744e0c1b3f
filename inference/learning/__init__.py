"""One kernel in place of a posterior: the best of every mode, or one that a name stands for."""

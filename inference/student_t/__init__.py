"""Kernel Student-t densities: hyperparameters, draws, fantasy data, scikit-learn's interface."""

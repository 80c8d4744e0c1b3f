"""Kernel Student-t densities: learning, sampling, fantasy data and a scikit-learn estimator."""

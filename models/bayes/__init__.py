"""The Bayesian kernel embedding as a NumPyro model, and the priors of its hyperparameters."""

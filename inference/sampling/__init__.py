"""The posterior of the hyperparameters: its density, the ways to draws from it, and the run."""

"""Diagnostics of posterior draws: modes and their masses, convergence, and a verdict."""

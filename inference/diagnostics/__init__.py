"""What draws are worth: modes and their masses, convergence, and a verdict in words."""

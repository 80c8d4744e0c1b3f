"""The ways to a posterior: NUTS, quadrature and tempered SMC."""

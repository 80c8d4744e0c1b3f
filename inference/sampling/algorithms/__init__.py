"""Numerical ways through a density, which know nothing of kernels: NUTS, SMC, quadrature."""

"""The kernel Student-t density: a Gaussian model in feature space with everything integrated out.

Huszar and Lacoste-Julien, *A Kernel Approach to Tractable Bayesian Nonparametrics* (2011), cited as
KST.
"""

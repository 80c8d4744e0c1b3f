"""The kernel Student-t density: a Gaussian in feature space, integrated out.

Huszar and Lacoste-Julien, *A Kernel Approach to Tractable Bayesian Nonparametrics* (2011), cited as
KST.
"""

"""Permutation tests of two samples: schemes, pooled data, null distributions, combination."""

"""Statistics of two samples for all permutations, and the combined statistic of the tests."""

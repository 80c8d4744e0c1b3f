"""Two samples with their labels dealt out anew: what every permutation test is made from."""

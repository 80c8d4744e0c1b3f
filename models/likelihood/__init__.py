"""The marginal likelihood BKE (13): its two terms, and several ways to the same number."""

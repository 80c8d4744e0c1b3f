"""Statistics of two samples or of pairs: MMD, HSIC and their relatives."""

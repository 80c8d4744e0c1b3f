"""The headings under which ``bke --help`` lists commands, and ``bke examples`` too."""

BEGIN = "Begin"
POSTERIOR = "Posterior of the lengthscale"
COMPARE = "Compare samples, tables and streams"
CHECK = "Check chains and draws"
LEARN = "Learn kernels, densities and means"
DEPENDENCE = "Dependence and causes"
INFER = "Predict and infer"

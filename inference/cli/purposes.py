"""The headings under which ``bke --help`` lists commands, and ``bke examples`` too."""

BEGIN = "Begin"
COMPARE = "Compare samples, tables and streams"
SKETCHES = "Compare where rows are too many, or apart"
CHECK = "Check chains and draws"
LEARN = "Learn kernels, densities and means"
DEPENDENCE = "Dependence and causes"
INFER = "Predict and infer"

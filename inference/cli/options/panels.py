"""The headings under which ``--help`` lists options and commands."""

DATA = "The samples"
MODEL = "Model"
SAMPLER = "Sampler"
WITNESS = "Witness"
TEST = "Test"
LEARNED = "Kernels"
SIMULATIONS = "Simulations"
PROCESSES = "Several processes"
DISK = "Data on disk"
OUTPUT = "Output"

#: The headings under which ``bke --help`` lists commands, and ``bke examples`` too.
BEGIN = "Begin"
POSTERIOR = "Posterior of the lengthscale"
COMPARE = "Compare samples, tables and streams"
CHECK = "Check chains and draws"
MODELS = "Dependence, densities and simulators"

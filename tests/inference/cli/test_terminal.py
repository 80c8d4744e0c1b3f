"""What the terminal shows of a posterior is what the summary says."""

import numpy as np
from bke.inference import Nuts, fit, reweight
from bke.inference.cli.steps import diagnose_and_print
from bke.inference.cli.terminal import Terminal, number


def test_the_mass_of_a_single_mode_counts_too(capsys):
    """Two short chains are off, quadrature is not: both are in the table once it is known."""
    X = np.random.default_rng(11).normal(size=(21, 1))
    run = fit(X, method=Nuts(2, 20, 6), progress=False)
    weighed = reweight(run, progress=False)
    for tree in (run, weighed):
        _, summary, _ = diagnose_and_print(tree, Terminal(json=False, quiet=True))
        printed = capsys.readouterr().out
        posterior = summary["posterior"]
        assert len(posterior["modes"]) == 1
        assert ("by mass" in printed) == (tree is weighed)
    (found,) = posterior["overall"].values()
    (row,) = (line for line in printed.splitlines() if "by mass" in line)
    assert number(found["mean"], found["sd"]) in row
    assert found != posterior["modes"][0]["hyperparameters"]["lengthscale"]

"""Evaluations and errors of the quadrature of a posterior, and of SciPy's cubature over its range.

The reference is our quadrature to a tolerance of 1e-5. Takes about a minute.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import report
from bke.inference import Quadrature, fit, normal_laplace, open_run
from scipy.integrate import cubature

TOLERANCE = 1e-3


def samples() -> dict[str, np.ndarray]:
    """Return samples whose lengthscale has a posterior with one or two modes."""
    rng = np.random.default_rng(1)
    return {
        "BKE Figure 3, 600 rows": np.concatenate(normal_laplace(0)),
        "BKE Figure 3, 120 rows": np.concatenate(normal_laplace(0, 20)),
        "normal, 40 rows": rng.normal(size=(40, 1)),
        "gamma, 60 rows x 2": rng.gamma(2.0, size=(60, 2)),
    }


def measure(X: np.ndarray) -> list[dict[str, Any]]:
    """Return evaluations, error and estimated error of each method."""
    options: dict[str, Any] = {"standardize": None, "progress": False}
    reference = fit(X, method=Quadrature(1e-5), **options)["quadrature"]
    run = fit(X, method=Quadrature(TOLERANCE), **options)
    exact = reference.attrs["log_normalizer"]
    attrs = run["quadrature"].attrs
    row = {"method": "bke", "evaluations": attrs["evaluations"]}
    row |= {"error": attrs["log_normalizer"] - exact, "stated": attrs["log_normalizer_error"]}
    rows = [row]
    log_density, top = open_run(run).log_density, float(reference["log_density"].max())
    low, high = (float(f(reference["unconstrained"].values)) for f in (np.min, np.max))
    for rule in ("gk15", "gk21"):
        evaluations = 0

        def density(z: np.ndarray) -> np.ndarray:
            nonlocal evaluations
            evaluations += len(z)
            return np.exp(log_density({"lengthscale": z.ravel()}) - top)

        result = cubature(density, [low], [high], rule=rule, rtol=TOLERANCE, atol=0.0)
        error = float(np.log(result.estimate)) + top - exact
        stated = float(result.error / result.estimate)
        row = {"method": f"cubature, {rule}", "evaluations": evaluations}
        rows.append({**row, "error": error, "stated": stated})
    return rows


def main() -> None:
    """Measure all samples and write the table."""
    rows = [{"sample": name, **row} for name, X in samples().items() for row in measure(X)]
    title = "Quadrature of posteriors and SciPy's cubature over the same range"
    report.write_report("quadrature", title, rows, {"tolerance": TOLERANCE})


if __name__ == "__main__":
    main()

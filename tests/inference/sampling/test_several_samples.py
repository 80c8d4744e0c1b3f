"""Two samples pooled, or with a likelihood each."""

import numpy as np
import pytest
from bke.inference import (
    InputError,
    Nuts,
    Quadrature,
    Smc,
    fit,
    learn_kernel,
    load_run,
    normal_laplace,
    sample_witness,
    save_run,
)
from bke.inference.sampling.run import target_of, units_of
from bke.models import SquaredExponential, log_marginal_likelihood

P, Q = (sample[::10] for sample in normal_laplace())
Q = Q[:20]
SETTINGS = {"method": Quadrature(num_samples=64), "progress": False}


@pytest.fixture(scope="module")
def joint():
    """A run of two samples that are given as lists."""
    return fit((P[:, 0].tolist(), Q[:, 0].tolist()), samples="product", **SETTINGS)


def test_the_joint_density_is_the_product_of_both_likelihoods():
    run = fit((P, Q), samples="product", standardize=None, **SETTINGS)
    nodes = run["quadrature"].to_dataset().isel(node=slice(0, None, 40))
    for z, log_density in zip(
        nodes["unconstrained"].values[:, 0], nodes["log_density"], strict=True
    ):
        ell = float(np.exp(z))
        parts = [log_marginal_likelihood(x, SquaredExponential(ell)) for x in (P, Q)]
        # Gamma(1, 1), on the log scale.
        assert log_density == pytest.approx(-ell + z + sum(parts), rel=1e-10)


def test_a_pooled_pair_is_its_union_and_has_another_posterior_than_a_joint_pair(joint):
    runs = [fit(X, **SETTINGS) for X in ((P, Q), np.concatenate([P, Q]))]
    first, second, other = (run["quadrature"].attrs["log_normalizer"] for run in (*runs, joint))
    assert first == second
    assert abs(first - other) > 1.0
    assert "sample" not in runs[0]["observed_data"]


def test_a_joint_run_remembers_its_samples(joint, tmp_path):
    save_run(joint, tmp_path / "run.nc")
    again = load_run(tmp_path / "run.nc")
    _, units = target_of(again)
    assert units.sizes == (len(P), len(Q))
    first, second = units.transform_data(again["observed_data"]["X"].values)
    pooled = np.concatenate([P, Q])
    np.testing.assert_allclose(first, P / pooled.std())
    np.testing.assert_allclose(second, Q / pooled.std())
    witness = sample_witness(again, P, Q, np.array([0.0]), progress=False)
    assert np.isfinite(witness["witness"].values).all()


@pytest.mark.slow
def test_every_method_takes_a_joint_pair():
    for method in (Nuts(num_chains=2, num_samples=50), Smc(num_particles=200, num_repeats=2)):
        run = fit((P, Q), samples="product", method=method, progress=False)
        assert run.attrs["samples"] == "product"
    assert learn_kernel((P, Q), samples="product", progress=False).peaks


def test_rounded_samples_are_checked_separately():
    """Each sample is symmetric, so its density is zero; their union is not and its is not."""
    left, right = np.array([1.0, 1, 2, 3, 3]), np.array([7.0, 7, 9, 11, 11])
    with pytest.raises(InputError, match="exactly zero at row 3, 8"):
        fit((left, right), samples="product", dither=None, **SETTINGS)
    assert units_of(fit((left, right), samples="product", **SETTINGS)).dither == [1.0]


@pytest.mark.parametrize(
    ("data", "samples", "message"),
    [
        (P, "product", "needs a tuple"),
        ((P, Q), "both", "samples must be one of"),
        ((P, np.column_stack([Q, Q**2])), "product", "1, 2 columns"),
        ((P, np.array([1.0, np.nan, 2.0])), "product", r"X\[1\] has a missing value"),
    ],
)
def test_bad_pairs(data, samples, message):
    with pytest.raises(InputError, match=message):
        fit(data, samples=samples, **SETTINGS)

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


def test_the_joint_density_is_the_product_of_both_likelihoods():
    run = fit((P, Q), samples="product", standardize=None, **SETTINGS)
    nodes = run["quadrature"].to_dataset().isel(node=slice(0, None, 40))
    for z, found in zip(nodes["unconstrained"].values[:, 0], nodes["log_density"], strict=True):
        ell = float(np.exp(z))
        parts = [log_marginal_likelihood(x, SquaredExponential(ell)) for x in (P, Q)]
        assert found == pytest.approx(-ell + z + sum(parts), rel=1e-10)  # Gamma(1, 1), log scale


def test_a_pooled_pair_is_its_union():
    runs = [fit(X, **SETTINGS) for X in ((P, Q), np.concatenate([P, Q]))]
    first, second = (run["quadrature"].attrs["log_normalizer"] for run in runs)
    assert first == second
    assert "sample" not in runs[0]["observed_data"]


def test_samples_may_be_lists():
    run = fit((P[:, 0].tolist(), Q[:, 0].tolist()), samples="product", **SETTINGS)
    assert run["observed_data"]["X"].shape == (len(P) + len(Q), 1)


def test_joint_and_pooled_are_different_posteriors():
    pooled, joint = (fit((P, Q), samples=samples, **SETTINGS) for samples in ("pooled", "product"))
    logs = [run["quadrature"].attrs["log_normalizer"] for run in (pooled, joint)]
    assert abs(logs[0] - logs[1]) > 1.0


def test_a_joint_run_remembers_its_samples(tmp_path):
    run = fit((P, Q), samples="product", **SETTINGS)
    save_run(run, tmp_path / "run.nc")
    again = load_run(tmp_path / "run.nc")
    _, units = target_of(again)
    assert units.sizes == (len(P), len(Q))
    first, second = units.points(again["observed_data"]["X"].values)
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


def test_rounded_samples_are_looked_at_one_by_one():
    """Each sample is symmetric, so its density is zero; their union is not and its is not."""
    left, right = np.array([1.0, 1, 2, 3, 3]), np.array([7.0, 7, 9, 11, 11])
    with pytest.raises(InputError, match="exactly zero at row 3, 8"):
        fit((left, right), samples="product", dither=None, **SETTINGS)
    assert units_of(fit((left, right), samples="product", **SETTINGS)).dither == [1.0]


def test_bad_pairs():
    with pytest.raises(InputError, match="needs a tuple"):
        fit(P, samples="product", **SETTINGS)
    with pytest.raises(InputError, match="samples must be one of"):
        fit((P, Q), samples="both", **SETTINGS)
    with pytest.raises(InputError, match="1, 2 columns"):
        fit((P, np.column_stack([Q, Q**2])), samples="product", **SETTINGS)
    with pytest.raises(InputError, match=r"X\[1\] has a missing value"):
        fit((P, np.array([1.0, np.nan, 2.0])), samples="product", **SETTINGS)

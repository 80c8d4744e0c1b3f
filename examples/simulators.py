r"""Simulators for the examples and benchmarks of likelihood-free inference.

**Blowflies.** The population of Nicholson's blowflies (Wood, 2010; Meeds & Welling, 2014), as in
the slides *Inference with Kernel Embeddings* (Sejdinovic, 2016), part on K2-ABC:

.. math:: Y_{t+1} = P Y_{t-\tau} e^{-Y_{t-\tau} / Y_0} e_t + Y_t e^{-\delta \epsilon_t},

:math:`e_t \sim` Gamma(shape :math:`1/\sigma_p^2`, scale :math:`\sigma_p^2`) and :math:`\epsilon_t`
the same with :math:`\sigma_d`, both of mean one. As in the published code, the population is 180 at
all times up to the start, the first 50 steps are discarded and 180 steps are returned. That code
reads :math:`Y_{t+1-\tau}` instead of the :math:`Y_{t-\tau}` of the equation, which is used here.
Parameters are logarithms; the delay is rounded to a whole number of at least 1.

**Uniforms.** The toy model of the K2-ABC paper: y from the mixture of the uniform distributions on
[0, 1], [1, 2], ..., with weights pi. With a Dirichlet prior the posterior is known: Dirichlet, with
one more for every observation in the interval.
"""

import numpy as np
import numpyro.distributions as dist

HISTORY, BURN_IN, STEPS = 180.0, 50, 180
PARAMETERS = ("log_P", "log_delta", "log_Y0", "log_sigma_d", "log_sigma_p", "log_tau")
#: Parameters with the well-known oscillations of the population, here with a period of about 26.
CYCLES = dict(zip(PARAMETERS, np.log([29.0, 0.2, 260.0, 0.6, 0.3, 7.0]).tolist(), strict=True))
#: Thresholds of the decrease after a peak and the increase before it, in standard deviations.
PEAKS = (0.5, 1.5)
SUMMARIES = (
    *(f"log mean of quarter {i}" for i in range(1, 5)),
    *(f"mean of quarter {i} of differences" for i in range(1, 5)),
    *(f"peaks above {threshold:g}" for threshold in PEAKS),
)
INTERVALS = 5


def blowfly_prior():
    """Return normal priors of the logarithms (Meeds & Welling, 2014)."""
    return {
        "log_P": dist.Normal(2.0, 2.0),
        "log_delta": dist.Normal(-1.0, 0.4),
        "log_Y0": dist.Normal(5.0, 0.5),
        "log_sigma_d": dist.Normal(-0.5, 1.0),
        "log_sigma_p": dist.Normal(-0.5, 1.0),
        "log_tau": dist.Normal(2.0, 1.0),
    }


def blowflies(rng, theta, num_steps=STEPS):
    """Simulate series (B, num_steps) at the parameters of ``theta``, whose arrays are (B,)."""
    P, delta, Y0, sigma_d, sigma_p, tau = (np.exp(theta[name]) for name in PARAMETERS)
    rows, steps = np.arange(len(P)), BURN_IN + num_steps
    # Delays of at least the length of the series use the initial values only.
    delay = np.clip(np.rint(tau), 1, steps).astype(int)
    e = rng.gamma(sigma_p**-2, sigma_p**2, (steps, len(P)))
    epsilon = rng.gamma(sigma_d**-2, sigma_d**2, (steps, len(P)))
    Y = np.empty((steps + 1, len(P)))
    Y[0] = HISTORY
    for t in range(steps):
        earlier = Y[np.maximum(t - delay, 0), rows]
        Y[t + 1] = P * earlier * np.exp(-earlier / Y0) * e[t] + Y[t] * np.exp(-delta * epsilon[t])
    return Y[-num_steps:].T


def delay_vectors(series, lag):
    """Return rows (x_t, x_{t - lag}) of series (B, T), shape (B, T - lag, 2).

    They include the dynamics in comparisons of unordered rows such as the MMD.
    """
    return np.stack([series[:, lag:], series[:, :-lag]], axis=2)


def quarter_cycle(series):
    """Return the first lag, at least 1, at which a series (T,) has no positive autocorrelation."""
    centered = series - series.mean()
    lags = range(1, len(series) // 4)
    return next((lag for lag in lags if centered[lag:] @ centered[:-lag] <= 0.0), lags[-1])


def peaks(series, threshold):
    """Count the maxima of a series (T,).

    A maximum counts where the series falls by more than ``threshold`` below it; the next one is
    looked for when the series has risen by more than ``threshold`` above the minimum since.
    """
    count, rising = 0, True
    high, low = -np.inf, np.inf
    for value in series.tolist():
        high, low = max(high, value), min(low, value)
        if rising and value < high - threshold:
            count, rising, low = count + 1, False, value
        elif not rising and value > low + threshold:
            rising, high = True, value
    return count


def ten_summaries(series):
    """Compute the summaries of Meeds & Welling (2014) as in the code of K2-ABC, (T,) to (10,).

    The logarithms of the means of each quarter of the sorted series, in thousands; the means of
    each quarter of the sorted first differences, in thousands; the numbers of peaks of the series
    over its standard deviation, by two thresholds.
    """
    edges = np.array([0, len(series) // 4, len(series) // 2, 3 * len(series) // 4])

    def quarters(values):
        rows = np.diff(edges, append=len(values))
        return np.add.reduceat(np.sort(values), edges) / rows / 1000.0

    unit = series / (series.std() or 1.0)
    return np.array(
        [
            *np.log(quarters(series) + 1e-12),
            *quarters(np.diff(series)),
            *(peaks(unit, threshold) for threshold in PEAKS),
        ]
    )


def uniform_prior():
    """Return the prior of the weights of all intervals."""
    return {"pi": dist.Dirichlet(np.ones(INTERVALS))}


def uniforms(n):
    """Return the simulator of n observations."""

    def simulate(rng, theta):
        """Simulate samples (B, n) with the weights ``theta["pi"]``, (B, 5)."""
        edges = np.cumsum(theta["pi"], axis=1)[:, :-1]
        uniform = rng.random((len(edges), n))
        interval = np.sum(uniform[:, :, None] > edges[:, None], axis=2)
        return interval + rng.random(uniform.shape)

    return simulate


def uniform_posterior(observed):
    """Return the concentrations (5,) of the exact posterior."""
    return 1.0 + np.bincount(np.floor(observed).astype(int), minlength=INTERVALS)

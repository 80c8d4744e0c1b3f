"""Run of BKE Figure 4, end to end: this package, plain NumPyro, and the Stan program of the paper.

The target is the posterior of the lengthscale given the pooled built-in samples (n = 600), noise
variance 0.1, Gamma(1, 1) prior, by NUTS with 8 chains x (200 warmup + 200 draws) started from prior
draws. Each method runs in a separate process, timed from start to exit, including import and
compilation; the processes run in sequence.

The number of leapfrog steps of NUTS varies between runs, mostly with the initial values. So methods
are also compared per step, and end to end at equal numbers of steps.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

STARTED = time.perf_counter()  # before the imports, whose time is included

import numpy as np  # noqa: E402
import report  # noqa: E402

SIDES = {"bke": "this package", "plain": "plain NumPyro", "stan": "the paper's Stan program"}
NOISE_VARIANCE = 0.1
SKIPPED = 3  # exit status of a method that cannot run here


def main() -> None:
    """Run one method in this process, or all methods in separate processes."""
    options = parse()
    if options.side is None:
        compare(options)
        return
    measured = {"bke": run_bke, "plain": run_plain, "stan": run_stan}[options.side](options)
    measured["inside seconds"] = time.perf_counter() - STARTED
    if options.result:
        options.result.write_text(json.dumps(measured), encoding="utf-8")
    else:
        print(json.dumps(measured, indent=1))


def parse() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sides", nargs="+", choices=SIDES, default=list(SIDES))
    parser.add_argument("--side", choices=SIDES, help="run one method in this process")
    parser.add_argument("--n", type=int, default=600)
    parser.add_argument("--chains", type=int, default=8)
    parser.add_argument("--warmup", type=int, default=200)
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--likelihood", default="auto", help="likelihood solver of this package")
    parser.add_argument(
        "--plain-method",
        choices=("parallel", "sequential", "vectorized"),
        default="parallel",
        help="NumPyro's chain_method; parallel has one device and one BLAS thread per chain",
    )
    parser.add_argument("--stan-chains", type=int, help="fewer chains for Stan; then extrapolated")
    parser.add_argument(
        "--stan-iterations", type=int, help="iterations per chain for Stan, half of them warmup"
    )
    parser.add_argument("--results", type=Path, help="folder of the results")
    parser.add_argument("--result", type=Path, help="file for the measurements of one method")
    parser.add_argument("--quick", action="store_true", help="a check that it runs, not a result")
    options = parser.parse_args()
    if options.n % 6:
        parser.error("--n must be a multiple of 6: the built-in data have six components")
    if options.quick:
        options.n, options.chains, options.warmup, options.draws = 120, 2, 20, 20
    return options


def data(n: int) -> np.ndarray:
    """Return the pooled built-in samples, (n, 1)."""
    from bke.inference.data.samples import normal_laplace

    return np.concatenate(normal_laplace(seed=0, per_component=n // 6))


def prior_initial_values(x: np.ndarray, chains: int, seed: int) -> np.ndarray:
    """Draw initial values from the prior for the plain and the Stan program, (chains,).

    Both compute gamma(x_i) by a plain sum, which underflows to zero for an isolated point and a
    short lengthscale. Such draws are rejected, because neither program can start there.
    """
    generator = np.random.default_rng(seed)
    difference = x - x.T
    initial_values: list[float] = []
    while len(initial_values) < chains:
        draw = generator.gamma(1.0, 1.0)
        weighted = np.exp(-(difference**2) / (2 * draw**2)) * difference
        if np.all(weighted.sum(axis=1) != 0):
            initial_values.append(draw)
    return np.array(initial_values)


def run_bke(options: argparse.Namespace) -> dict[str, Any]:
    """Run ``fit``."""
    from bke.inference import Nuts, fit
    from clock import SamplerClock

    clock = SamplerClock()
    run = fit(
        data(options.n),
        noise_variance=NOISE_VARIANCE,
        likelihood=options.likelihood,
        standardize=None,
        method=Nuts(options.chains, options.warmup, options.draws),
        seed=options.seed,
        progress=False,
    )
    seconds_after = time.perf_counter() - clock.end  # time of the inputs of the diagnosis
    warmup, draws = run["warmup_sample_stats"]["n_steps"], run["sample_stats"]["n_steps"]
    return {
        "steps": int(warmup.sum() + draws.sum()),
        "sampling seconds": clock.sampling,
        "compilation seconds": clock.compilation,
        "after sampling seconds": seconds_after,
        "first draws": clock.first - STARTED,
        "chain means": run["posterior"]["lengthscale"].mean("draw").values.ravel().tolist(),
        "chains": options.chains,
        "iterations": options.warmup + options.draws,
    }


def run_plain(options: argparse.Namespace) -> dict[str, Any]:
    """Run NumPyro's ``MCMC`` on ``plain_model``."""
    import numpyro

    numpyro.enable_x64()
    if options.plain_method == "parallel":
        numpyro.set_host_device_count(options.chains)
    import jax
    import jax.numpy as jnp
    import scipy.linalg.lapack  # noqa: F401  loads the BLAS library to be limited
    from clock import CompileClock
    from numpyro.infer import MCMC, NUTS
    from plain_model import plain_model
    from threadpoolctl import threadpool_limits

    class RecordedWarmup(NUTS):
        """NUTS that adapts in the warmup although MCMC records all iterations, to count steps."""

        def init(self, rng_key: Any, num_warmup: int, *args: Any, **settings: Any) -> Any:
            return super().init(rng_key, options.warmup, *args, **settings)

    x = data(options.n)
    initial_values = prior_initial_values(x, options.chains, options.seed)
    mcmc = MCMC(
        RecordedWarmup(plain_model),
        num_warmup=0,
        num_samples=options.warmup + options.draws,
        num_chains=options.chains,
        chain_method=options.plain_method,
        progress_bar=False,
    )
    compiling = CompileClock()
    parallel = options.plain_method == "parallel"
    begin = time.perf_counter()
    with threadpool_limits(1, "blas") if parallel else contextlib.nullcontext():
        mcmc.run(
            jax.random.key(options.seed),
            jnp.asarray(x[:, 0]),
            NOISE_VARIANCE,
            extra_fields=("num_steps",),
            init_params={"lengthscale": jnp.log(jnp.asarray(initial_values))},
        )
        draws = np.asarray(mcmc.get_samples(group_by_chain=True)["lengthscale"])
        steps = np.asarray(mcmc.get_extra_fields(group_by_chain=True)["num_steps"])
    end = time.perf_counter()
    return {
        "steps": int(steps.sum()),
        "sampling seconds": end - begin - compiling.seconds(begin, end),
        "compilation seconds": compiling.seconds(0.0, end),
        "first draws": None,
        "chain means": draws[:, options.warmup :].mean(axis=1).tolist(),
        "chains": options.chains,
        "iterations": options.warmup + options.draws,
        "chain method": options.plain_method,
    }


def run_stan(options: argparse.Namespace) -> dict[str, Any]:
    """Compile and run ``figure4.stan`` with PyStan."""
    skip_without_stan()
    import httpstan.cache
    import httpstan.models
    import stan

    chains = options.stan_chains or options.chains
    warmup, draws = options.warmup, options.draws
    if options.stan_iterations:
        warmup = options.stan_iterations // 2
        draws = options.stan_iterations - warmup
    x = data(options.n)
    initial_values = prior_initial_values(x, chains, options.seed)
    code = Path(__file__).with_name("figure4.stan").read_text(encoding="utf-8")
    # PyStan caches compiled programs and even draws; both belong to the measured time.
    httpstan.cache.delete_model_directory(httpstan.models.calculate_model_name(code))
    begin = time.perf_counter()
    values = {"n": options.n, "x": x[:, 0].tolist(), "sigma2": NOISE_VARIANCE}
    # The compiler leaves a build folder where it runs.
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        posterior = stan.build(code, data=values, random_seed=options.seed + 1)
    built = time.perf_counter()
    fitted = posterior.sample(
        num_chains=chains,
        num_warmup=warmup,
        num_samples=draws,
        save_warmup=True,
        init=[{"lengthscale": float(start)} for start in initial_values],
    )
    end = time.perf_counter()
    # PyStan flattens (draw, chain) with the chain running fastest.
    lengthscale = np.asarray(fitted["lengthscale"]).reshape(-1, chains)
    return {
        "steps": int(np.asarray(fitted["n_leapfrog__"]).sum()),
        "sampling seconds": end - built,
        "compilation seconds": built - begin,
        "first draws": None,
        "chain means": lengthscale[warmup:].mean(axis=0).tolist(),
        "chains": chains,
        "iterations": warmup + draws,
    }


def skip_without_stan() -> None:
    """Exit with the reason if PyStan cannot run."""
    reason = None
    if importlib.util.find_spec("stan") is None:
        reason = 'PyStan is not installed: pip install "bke[stan]"'
    elif importlib.util.find_spec("pkg_resources") is None:
        reason = (
            'PyStan needs pkg_resources, which newer setuptools lack: pip install "setuptools<81"'
        )
    elif not any(map(shutil.which, (os.environ.get("CXX", "c++"), "g++", "clang++"))):
        reason = "PyStan compiles its program and there is no C++ compiler (such as g++)"
    if reason:
        print(reason, file=sys.stderr)
        sys.exit(SKIPPED)


def compare(options: argparse.Namespace) -> None:
    """Run the methods in sequence and report."""
    info, folder = report.start(options.results)
    measured: dict[str, dict[str, Any]] = {}
    remarks: list[str] = []
    for side in dict.fromkeys(options.sides):
        print(f"{SIDES[side]} ...", flush=True)
        outcome = run_in_subprocess(side)
        if isinstance(outcome, str):
            remarks.append(f"{side} was skipped. {outcome}")
            print(remarks[-1])
        else:
            measured[side] = outcome
            print(f"  {outcome['wall seconds']:.0f} s, {outcome['steps']} leapfrog steps")
    if not measured:
        sys.exit("no method could run; see the reasons above")
    rows = summary(measured, options)
    ratios = [ratio(side, rows) for side in measured if side != "bke" and "bke" in measured]
    remarks += filter(
        None, (extrapolation_note(measured[side], side, options) for side in measured)
    )
    parts = [
        f"n = {options.n}, {options.chains} chains x ({options.warmup} warmup + {options.draws} "
        "draws). `wall s` is the whole process, split into sampling, compilation and the rest "
        "(import, initial values and, for this package, inputs of the diagnosis); `ms per step` "
        "is sampling over the leapfrog steps of all chains, which share the cores; "
        f"`wall s at {rows[0]['at steps']} steps` is the wall time with that many steps.",
        report.table([{key: row[key] for key in row if key != "at steps"} for row in rows]),
        *(["Ratios to this package:", report.table(ratios)] if ratios else []),
        "Means of the lengthscale by chain:",
        report.table([chain_means(side, measured[side]) for side in measured]),
        *remarks,
    ]
    name = "figure4-quick" if options.quick else "figure4"
    result = {"sides": measured, "rows": rows, "ratios": ratios, "remarks": remarks}
    report.save(folder, name, "The run of BKE Figure 4", info, "\n\n".join(parts), result)


def run_in_subprocess(side: str) -> dict[str, Any] | str:
    """Run a method in a new process; return its measurements, or why it was skipped."""
    with tempfile.TemporaryDirectory() as folder:
        result, log = Path(folder) / "result.json", Path(folder) / "log.txt"
        command = [sys.executable, __file__, *sys.argv[1:], "--side", side, "--result", str(result)]
        with log.open("w") as stream:
            begin = time.perf_counter()
            status = subprocess.run(command, stdout=stream, stderr=stream, check=False).returncode
            wall = time.perf_counter() - begin
        text = log.read_text(errors="replace").strip()
        if status == SKIPPED:
            return text
        if status:
            sys.exit(f"{text}\n\n{side} failed with exit status {status}")
        measured = json.loads(result.read_text(encoding="utf-8"))
        return {"wall seconds": wall, **measured}


def summary(
    measured: dict[str, dict[str, Any]], options: argparse.Namespace
) -> list[dict[str, Any]]:
    """Return a row for each method."""
    reference = measured.get("bke", next(iter(measured.values())))["steps"]
    rows = []
    for side, values in measured.items():
        per_step = values["sampling seconds"] / values["steps"]
        rest = values["wall seconds"] - values["sampling seconds"]
        compilation = values["compilation seconds"]
        shorter = is_shorter(values, options)
        rows.append(
            {
                "side": side,
                "wall s": None if shorter else values["wall seconds"],
                "sampling s": None if shorter else values["sampling seconds"],
                "compilation s": compilation,
                "other s": rest - compilation,
                "first draws s": values["first draws"],
                "steps": values["steps"],
                "ms per step": 1e3 * per_step,
                f"wall s at {reference} steps": rest + per_step * reference,
                "at steps": reference,
                "extrapolated": "yes" if shorter else "no",
            }
        )
    return rows


def is_shorter(values: dict[str, Any], options: argparse.Namespace) -> bool:
    """Return whether a method ran fewer chains or iterations than the others."""
    full = (options.chains, options.warmup + options.draws)
    return (values["chains"], values["iterations"]) != full


def ratio(side: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the ratios of a method to this package."""
    ours, theirs = (next(row for row in rows if row["side"] == name) for name in ("bke", side))
    column = f"wall s at {ours['at steps']} steps"
    wall_ratio = None if theirs["wall s"] is None else theirs["wall s"] / ours["wall s"]
    compiled_ratio = None
    if side == "stan":  # PyStan caches the compiled program
        compiled_ratio = (theirs[column] - theirs["compilation s"]) / ours[column]
    return {
        "side": side,
        "end to end": wall_ratio,
        "per leapfrog step": theirs["ms per step"] / ours["ms per step"],
        "end to end at equal steps": theirs[column] / ours[column],
        "the same, program already compiled": compiled_ratio,
        "extrapolated": theirs["extrapolated"],
    }


def extrapolation_note(
    values: dict[str, Any], side: str, options: argparse.Namespace
) -> str | None:
    """Return a note on a method with fewer chains or iterations, else None."""
    if not is_shorter(values, options):
        return None
    return (
        f"{side} was extrapolated: it ran {values['chains']} chains x {values['iterations']} "
        f"iterations ({values['steps']} leapfrog steps), and its time at equal steps "
        "assumes a constant cost per step. Its end-to-end time was not measured."
    )


def chain_means(side: str, values: dict[str, Any]) -> dict[str, Any]:
    """Return a row with the sorted means of the chains of a method."""
    means = ", ".join(f"{mean:.2f}" for mean in sorted(values["chain means"]))
    return {"side": side, "lengthscale": means}


if __name__ == "__main__":
    main()

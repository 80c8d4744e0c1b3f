"""The run of BKE Figure 4, end to end: this package, plain NumPyro, and the paper's Stan program.

The posterior of the lengthscale given the pooled built-in samples (n = 600), noise variance 0.1,
Gamma(1, 1) prior, by NUTS with 8 chains x (200 warmup + 200 draws) started from prior draws. Each
side is a process of its own, timed from start to exit, import and compilation included; the sides
run one after the other.

NUTS takes a different number of leapfrog steps each time, mostly because of where the chains
start, so the sides are compared per step too, and end to end at equal numbers of steps.
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

STARTED = time.perf_counter()  # before the imports, which a user waits for as well

import numpy as np  # noqa: E402
import report  # noqa: E402

SIDES = {"bke": "this package", "plain": "plain NumPyro", "stan": "the paper's Stan program"}
NOISE_VARIANCE = 0.1
SKIPPED = 3  # exit status of a side that cannot run here


def main() -> None:
    """One side in this process, or all sides as processes of their own."""
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
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sides", nargs="+", choices=SIDES, default=list(SIDES))
    parser.add_argument("--side", choices=SIDES, help="run one side in this process")
    parser.add_argument("--n", type=int, default=600)
    parser.add_argument("--chains", type=int, default=8)
    parser.add_argument("--warmup", type=int, default=200)
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--likelihood", default="auto", help="route of this package")
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
    parser.add_argument("--result", type=Path, help="file for what one side measures")
    parser.add_argument("--quick", action="store_true", help="a check that it runs, not a result")
    options = parser.parse_args()
    if options.n % 6:
        parser.error("--n must be a multiple of 6: the built-in data have six components")
    if options.quick:
        options.n, options.chains, options.warmup, options.draws = 120, 2, 20, 20
    return options


def data(n: int) -> np.ndarray:
    """The pooled built-in samples, (n, 1)."""
    from bke.inference.data.samples import normal_laplace

    return np.concatenate(normal_laplace(seed=0, per_component=n // 6))


def prior_starts(x: np.ndarray, chains: int, seed: int) -> np.ndarray:
    """Prior draws for the two sides that do not draw their own, (chains,).

    Both compute gamma(x_i) by a plain sum, which underflows to zero for an isolated point and a
    short lengthscale. Such draws are not taken, for neither side can start there.
    """
    generator = np.random.default_rng(seed)
    difference = x - x.T
    starts: list[float] = []
    while len(starts) < chains:
        draw = generator.gamma(1.0, 1.0)
        weighted = np.exp(-(difference**2) / (2 * draw**2)) * difference
        if np.all(weighted.sum(axis=1) != 0):
            starts.append(draw)
    return np.array(starts)


def run_bke(options: argparse.Namespace) -> dict[str, Any]:
    """``fit``, as a user calls it."""
    from bke.inference import Nuts, fit
    from clock import SamplerClock

    clock = SamplerClock()
    run = fit(
        data(options.n),
        noise_variance=NOISE_VARIANCE,
        likelihood=options.likelihood,
        scale=None,
        method=Nuts(options.chains, options.warmup, options.draws),
        seed=options.seed,
        progress=False,
    )
    after = time.perf_counter() - clock.end  # what the diagnosis will need
    warmup, draws = run["warmup_sample_stats"]["n_steps"], run["sample_stats"]["n_steps"]
    return {
        "steps": int(warmup.sum() + draws.sum()),
        "sampling seconds": clock.sampling,
        "compilation seconds": clock.compilation,
        "after sampling seconds": after,
        "first draws": clock.first - STARTED,
        "chain means": run["posterior"]["lengthscale"].mean("draw").values.ravel().tolist(),
        "chains": options.chains,
        "iterations": options.warmup + options.draws,
    }


def run_plain(options: argparse.Namespace) -> dict[str, Any]:
    """NumPyro's ``MCMC`` on ``plain_model``."""
    import numpyro

    numpyro.enable_x64()
    if options.plain_method == "parallel":
        numpyro.set_host_device_count(options.chains)
    import jax
    import jax.numpy as jnp
    import scipy.linalg.lapack  # noqa: F401  loads the BLAS that is to be limited
    from clock import CompileClock
    from numpyro.infer import MCMC, NUTS
    from plain_model import plain_model
    from threadpoolctl import threadpool_limits

    class RecordedWarmup(NUTS):
        """Adapts for the warmup iterations although MCMC keeps all of them, to count steps."""

        def init(self, rng_key: Any, num_warmup: int, *args: Any, **settings: Any) -> Any:
            return super().init(rng_key, options.warmup, *args, **settings)

    x = data(options.n)
    starts = prior_starts(x, options.chains, options.seed)
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
            init_params={"lengthscale": jnp.log(jnp.asarray(starts))},
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
    """``figure4.stan`` through PyStan, compiled afresh."""
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
    starts = prior_starts(x, chains, options.seed)
    code = Path(__file__).with_name("figure4.stan").read_text(encoding="utf-8")
    # PyStan keeps compiled programs and even draws; both are part of what is measured.
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
        init=[{"lengthscale": float(start)} for start in starts],
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
    """Leave with one sentence where PyStan cannot run."""
    missing = None
    if importlib.util.find_spec("stan") is None:
        missing = 'PyStan is not installed: pip install "bke[stan]"'
    elif importlib.util.find_spec("pkg_resources") is None:
        missing = (
            'PyStan needs pkg_resources, which newer setuptools lack: pip install "setuptools<81"'
        )
    elif not any(map(shutil.which, (os.environ.get("CXX", "c++"), "g++", "clang++"))):
        missing = "PyStan compiles its program and there is no C++ compiler (such as g++)"
    if missing:
        print(missing, file=sys.stderr)
        sys.exit(SKIPPED)


def compare(options: argparse.Namespace) -> None:
    """Run the sides one after the other and report."""
    info, folder = report.start(options.results)
    measured: dict[str, dict[str, Any]] = {}
    remarks: list[str] = []
    for side in dict.fromkeys(options.sides):
        print(f"{SIDES[side]} ...", flush=True)
        outcome = in_own_process(side)
        if isinstance(outcome, str):
            remarks.append(f"{side} was skipped. {outcome}")
            print(remarks[-1])
        else:
            measured[side] = outcome
            print(f"  {outcome['wall seconds']:.0f} s, {outcome['steps']} leapfrog steps")
    if not measured:
        sys.exit("no side could run")
    rows = summary(measured, options)
    ratios = [ratio(side, rows) for side in measured if side != "bke" and "bke" in measured]
    remarks += filter(None, (extrapolation(measured[side], side, options) for side in measured))
    parts = [
        f"n = {options.n}, {options.chains} chains x ({options.warmup} warmup + {options.draws} "
        "draws). `wall s` is the whole process, split into sampling, compilation and the rest "
        "(import, starting points and, for this package, what the diagnosis needs); `ms per step` "
        "is sampling over the leapfrog steps of all chains, which share the cores; "
        f"`wall s at {rows[0]['at steps']} steps` is the wall time with that many steps.",
        report.table([{key: row[key] for key in row if key != "at steps"} for row in rows]),
        *(["How many times longer than this package:", report.table(ratios)] if ratios else []),
        "Means of the lengthscale by chain:",
        report.table([chain_means(side, measured[side]) for side in measured]),
        *remarks,
    ]
    name = "figure4-quick" if options.quick else "figure4"
    result = {"sides": measured, "rows": rows, "ratios": ratios, "remarks": remarks}
    report.save(folder, name, "The run of BKE Figure 4", info, "\n\n".join(parts), result)


def in_own_process(side: str) -> dict[str, Any] | str:
    """What a side measured, or why it did not run."""
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
    """One row per side."""
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
    """Whether a side ran fewer chains or iterations than the others."""
    full = (options.chains, options.warmup + options.draws)
    return (values["chains"], values["iterations"]) != full


def ratio(side: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """A side over this package."""
    ours, theirs = (next(row for row in rows if row["side"] == name) for name in ("bke", side))
    equal = f"wall s at {ours['at steps']} steps"
    whole = None if theirs["wall s"] is None else theirs["wall s"] / ours["wall s"]
    compiled = None
    if side == "stan":  # PyStan keeps the compiled program for the next time
        compiled = (theirs[equal] - theirs["compilation s"]) / ours[equal]
    return {
        "side": side,
        "end to end": whole,
        "per leapfrog step": theirs["ms per step"] / ours["ms per step"],
        "end to end at equal steps": theirs[equal] / ours[equal],
        "the same, program already compiled": compiled,
        "extrapolated": theirs["extrapolated"],
    }


def extrapolation(values: dict[str, Any], side: str, options: argparse.Namespace) -> str | None:
    """What a shortened side ran, in words."""
    if not is_shorter(values, options):
        return None
    return (
        f"{side} was extrapolated: it ran {values['chains']} chains x {values['iterations']} "
        f"iterations ({values['steps']} leapfrog steps), and its time at equal steps takes each "
        "further step to cost the same. Its end-to-end time was not measured."
    )


def chain_means(side: str, values: dict[str, Any]) -> dict[str, Any]:
    """One row: the chains in increasing order, so that sides can be compared by eye."""
    means = ", ".join(f"{mean:.2f}" for mean in sorted(values["chain means"]))
    return {"side": side, "lengthscale": means}


if __name__ == "__main__":
    main()

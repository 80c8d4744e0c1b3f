"""The commands, each a function of a terminal and its options, with an example."""

from collections.abc import Callable

from .draws import chains, thin
from .examples import examples
from .likelihood_free import abc
from .posterior import diagnose, fit, run, witness
from .samples import compare, density, independence
from .tables import drift, monitor

#: In the order of ``bke --help``.
COMMANDS: dict[Callable[..., bool | None], str] = {
    examples: "bke examples, then cd bke-examples",
    run: "bke run calm.csv windy.csv --columns Temp,InvHt --ard --out ozone",
    fit: "bke fit calm.csv windy.csv --columns Ozone --out run.nc",
    diagnose: "bke diagnose run.nc --out pictures",
    witness: "bke witness run.nc calm.csv windy.csv --columns Ozone",
    compare: "bke compare calm.csv windy.csv --columns Ozone",
    drift: "bke drift last_month.csv this_month.csv --exclude customer --fail",
    monitor: "bke monitor new.csv --reference old.csv --exclude id --out watched",
    chains: "bke chains posterior.nc --parameters mu,tau --fail",
    thin: "bke thin run.nc --to 200 --out thinned",
    independence: "bke independence ozone.csv --x Temp,Wind --y Ozone",
    density: "bke density usual.csv --at new.csv --out result",
    abc: "bke abc model.py counts.csv --simulations 20000 --out result",
}

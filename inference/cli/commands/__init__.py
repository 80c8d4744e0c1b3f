"""The commands, each in a module of its own; a new one joins the program by its place here."""

from .bayes import bayes
from .chains import chains
from .check import check
from .compare import compare
from .condition import condition
from .density import density
from .diagnose import diagnose
from .drift import drift
from .filter import filter_states
from .fit import fit
from .graph import graph
from .independence import independence
from .learn import learn
from .likelihood_free import approximate
from .merge import merge
from .monitor import monitor
from .run import run
from .score import score
from .shrink import shrink
from .sketch import sketch
from .thin import thin
from .two_sample import two_sample
from .witness import witness

#: By purpose, in the order of ``bke --help``.
PANELS = {
    "Compare samples, tables and streams": (two_sample, drift, monitor, run, witness),
    "Compare where rows are too many, or apart": (sketch, merge, compare),
    "Check chains, draws and machines": (chains, diagnose, thin, check),
    "Learn kernels, densities and means": (fit, learn, score, density, shrink),
    "Dependence and causes": (independence, graph),
    "Predict and infer": (condition, bayes, filter_states, approximate),
}
COMMANDS = tuple(command for commands in PANELS.values() for command in commands)

"""The commands, each in a module of its own; a new one joins the program by its place here."""

from .. import purposes
from .bayes import bayes
from .chains import chains
from .condition import condition
from .density import density
from .diagnose import diagnose
from .drift import drift
from .examples import examples
from .filter import filter_states
from .fit import fit
from .graph import graph
from .independence import independence
from .learn import learn
from .likelihood_free import approximate
from .monitor import monitor
from .run import run
from .score import score
from .shrink import shrink
from .thin import thin
from .two_sample import two_sample
from .witness import witness

#: By purpose, in the order of ``bke --help``.
PANELS = {
    purposes.BEGIN: (examples,),
    purposes.POSTERIOR: (run, fit, diagnose, witness),
    purposes.COMPARE: (two_sample, drift, monitor),
    purposes.CHECK: (chains, thin),
    purposes.LEARN: (learn, score, density, shrink),
    purposes.DEPENDENCE: (independence, graph),
    purposes.INFER: (condition, bayes, filter_states, approximate),
}
COMMANDS = tuple(command for commands in PANELS.values() for command in commands)

"""The commands, each in a module of its own; a new one joins the program by its place here."""

from ..options import panels
from .chains import chains
from .compare import compare
from .density import density
from .diagnose import diagnose
from .drift import drift
from .examples import examples
from .fit import fit
from .independence import independence
from .likelihood_free import approximate
from .monitor import monitor
from .run import run
from .thin import thin
from .witness import witness

#: By purpose, in the order of ``bke --help``.
PANELS = {
    panels.BEGIN: (examples,),
    panels.POSTERIOR: (run, fit, diagnose, witness),
    panels.COMPARE: (compare, drift, monitor),
    panels.CHECK: (chains, thin),
    panels.MODELS: (independence, density, approximate),
}
COMMANDS = tuple(command for commands in PANELS.values() for command in commands)

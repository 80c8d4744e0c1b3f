# ruff: noqa: F403
from bke.inference import *
from bke.models import *

__version__: str

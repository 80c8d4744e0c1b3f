"""What JAX has compiled is kept: most of the time of these tests is compilation.

The folder is shared by the workers, by the processes that tests start, and by later runs.
"""

import getpass
import os
import tempfile
from pathlib import Path

CACHE = Path(tempfile.gettempdir()) / f"bke-tests-{getpass.getuser()}"
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(CACHE))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")

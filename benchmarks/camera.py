"""Errors of filters of a camera's orientation, recorded from ``examples/camera.py``.

The example renders frames of a room, and filters the rotation of the camera by kernel Bayes' rules
and by the Kalman filters of Stone Soup (``pip install "bke[benchmarks]"``), which it names if it is
missing. Both halves of the frames, the methods and the choice of their parameters are described
there, with the errors of the slides by Fukumizu, *Kernel Method for Bayesian Inference*, whose
frames are not public.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import report

EXAMPLE = Path(__file__).parent.parent / "examples" / "camera.py"


def main() -> None:
    """Run the example and record its table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--quick", action="store_true", help="a check that it runs, not a result")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, str(EXAMPLE), "--out", folder]
        subprocess.run([*command, *(["--quick"] if options.quick else [])], check=True)
        record = json.loads((Path(folder) / "camera.json").read_text(encoding="utf-8"))
    rows = []
    for key, errors in record["mse by run"].items():
        noise, method = key.split(" ", 1)
        published = record["published"].get(method)
        rows.append(
            {
                "noise variance": float(noise),
                "method": method,
                "error": f"{np.mean(errors):.3f} ({np.std(errors):.3f})",
                "degrees": float(np.mean(record["degrees by run"][key])),
                "in the slides, other frames": published[float(noise) > 5e-4] if published else "",
            }
        )
    name = "camera-quick" if options.quick else "camera"
    title = "Camera angle: mean squared error |B - A|^2, standard deviation over runs in brackets"
    settings = {
        "frames": record["frames"],
        "constant estimate": record["constant"],
    }
    report.write_report(name, title, rows, settings)


if __name__ == "__main__":
    main()

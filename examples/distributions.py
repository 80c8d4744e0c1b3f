"""
School classes by their pupils
==============================

What is the mean language score of a school class, by what its pupils are like? Each class is a
group of rows, its pupils' verbal IQ and their families' socio-economic status, and one number is
predicted for each. Classes have 4 to 33 pupils: of a small one the pupils tell little of the class
they are a sample of, which Bayesian distribution regression (Law et al., *Bayesian Approaches to
Distribution Regression*, 2018) takes into account, and ridge regression on the classes' mean
embeddings does not.

The data are 2287 pupils of 133 classes in the Netherlands, T. A. B. Snijders and R. J. Bosker,
*Multilevel Analysis* (1999), distributed with the R package MASS as ``nlschools``. The score is the
pupils' own mean, so that small classes have a noisier one too, which the model does not know of.

Run it as ``python distributions.py --out FOLDER``.
"""

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import pandas as pd
from bke.inference import DistributionRegressor

parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
parser.add_argument("--out", type=Path, default=Path("distributions"))
parser.add_argument("--quick", action="store_true", help="the same: it takes seconds")
options = parser.parse_args()
options.out.mkdir(parents=True, exist_ok=True)

pupils = pd.read_csv(Path(__file__).parent / "data" / "pupils.csv")
scores = pupils.groupby("class")["lang"].mean()
rows = pupils[["class", "IQ", "SES"]]

regressor = DistributionRegressor().fit(rows, scores, groups="class")
print(regressor)
print("\nwith embeddings taken as they are:")
print(DistributionRegressor(shrinkage=False).fit(rows, scores, groups="class"))

print("\nA class whose pupils all have IQ 11 and status 30, and one that is mixed around them:")
alike = pd.DataFrame({"IQ": [11.0] * 20, "SES": [30.0] * 20})
mixed = pd.DataFrame({"IQ": [8.0, 14.0] * 10, "SES": [15.0, 45.0] * 10})
for name, interval in zip(
    ("alike", "mixed"), regressor.predict_interval([alike, mixed]), strict=True
):
    print(f"  {name}: {interval[0]:.1f} to {interval[1]:.1f}")

figure = regressor.plot()
figure.savefig(options.out / "classes.png", dpi=150)

"""
School classes by their pupils
==============================

What is the mean language score of a school class, by what its pupils are like? Each class is a
group of rows, its pupils' verbal IQ and their families' socio-economic status, and one number is
predicted for each (Bayesian distribution regression, Law et al., *Bayesian Approaches to
Distribution Regression*, 2018).

Classes have 4 to 33 pupils. If these were a sample of the class, a small one would tell little of
it, and its embedding is best shrunk towards that of all classes, which is the default. Here the
score is the mean of the very pupils whose rows are given: what these are like is known, whatever
class they may stand for, so that embeddings are to be taken as they are, ``shrinkage=False``, and
predict better.

The data are 2287 pupils of 133 classes in the Netherlands, T. A. B. Snijders and R. J. Bosker,
*Multilevel Analysis* (1999), distributed with the R package MASS as ``nlschools``.

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

regressor = DistributionRegressor(shrinkage=False).fit(rows, scores, groups="class")
print(regressor)
print("\nwere the pupils a sample of their class:")
print(DistributionRegressor().fit(rows, scores, groups="class"))

print("\nA class whose pupils all have IQ 11 and status 30, and one that is mixed around them:")
alike = pd.DataFrame({"IQ": [11.0] * 20, "SES": [30.0] * 20})
mixed = pd.DataFrame({"IQ": [8.0, 14.0] * 10, "SES": [15.0, 45.0] * 10})
for name, interval in zip(
    ("alike", "mixed"), regressor.predict_interval([alike, mixed]), strict=True
):
    print(f"  {name}: {interval[0]:.1f} to {interval[1]:.1f}")

figure = regressor.plot()
figure.savefig(options.out / "classes.png", dpi=150)

"""
Language scores of school classes from their pupils
===================================================

Each class is a group of rows, the verbal IQ of its pupils and the socio-economic status of their
families. The example predicts the mean language score of each class (Bayesian distribution
regression, Law et al., *Bayesian Approaches to Distribution Regression*, 2018).

Classes have 4 to 33 pupils. If the pupils were a sample of a larger group, the embedding of a
small class would be uncertain, and shrinkage towards the mean embedding, the default, would
improve it. Here the score is the mean of the same pupils whose rows are the input, so that there
is no sampling error, and ``shrinkage=False`` predicts better.

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
parser.add_argument("--quick", action="store_true", help="no effect: the script takes seconds")
options = parser.parse_args()
options.out.mkdir(parents=True, exist_ok=True)

pupils = pd.read_csv(Path(__file__).parent / "data" / "pupils.csv")
scores = pupils.groupby("class")["lang"].mean()
rows = pupils[["class", "IQ", "SES"]]

regressor = DistributionRegressor(shrinkage=False).fit(rows, scores, groups="class")
print(regressor)
print("\nIf the pupils were a sample of their class:")
print(DistributionRegressor().fit(rows, scores, groups="class"))

print("\nA class whose pupils all have IQ 11 and status 30, and a class with these means:")
uniform_class = pd.DataFrame({"IQ": [11.0] * 20, "SES": [30.0] * 20})
mixed_class = pd.DataFrame({"IQ": [8.0, 14.0] * 10, "SES": [15.0, 45.0] * 10})
for name, interval in zip(
    ("alike", "mixed"), regressor.predict_interval([uniform_class, mixed_class]), strict=True
):
    print(f"  {name}: {interval[0]:.1f} to {interval[1]:.1f}")

figure = regressor.plot()
figure.savefig(options.out / "classes.png", dpi=150)

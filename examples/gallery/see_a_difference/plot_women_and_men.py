"""
Measurements in which the sexes of patients differ
==================================================

In which of nine measurements do the two sexes differ, and by how much? The data are 442 patients
with diabetes (Efron, Hastie, Johnstone and Tibshirani, *Annals of Statistics* 32, 2004, 407-499),
with sexes coded as 1 and 2 without an explanation of the codes.
"""

import matplotlib.pyplot as plt
from bke.inference import compare, plot_comparison
from sklearn.datasets import load_diabetes

patients = load_diabetes(as_frame=True, scaled=False).data
measured = patients.drop(columns="sex")
measured = measured.rename(
    columns={
        "bp": "blood pressure",
        "s1": "cholesterol",
        "s2": "LDL",
        "s3": "HDL",
        "s4": "cholesterol / HDL",
        "s5": "log triglycerides",
        "s6": "glucose",
    }
)
first, second = measured[patients["sex"] == 1], measured[patients["sex"] == 2]

comparison = compare(first, second, names=("sex 1", "sex 2"), progress=False)
print(comparison)

_, ax = plt.subplots(figsize=(8.0, 5.0), layout="constrained")
plot_comparison(comparison, ax=ax)

# %%
# Rows are values of one measurement with the density ratio of sex 1 to sex 2 around them, and
# intervals that are simultaneous for all rows. Sex 1 has more patients with high HDL, low blood
# pressure and a low ratio of cholesterol to HDL, and the AUC is 0.77.

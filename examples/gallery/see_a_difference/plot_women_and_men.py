"""
In which measurements women and men with diabetes differ
========================================================

Which of nine measurements tell the two sexes apart, and by how much? The data are 442 patients
with diabetes (Efron, Hastie, Johnstone and Tibshirani, *Annals of Statistics* 32, 2004, 407-499),
which call the sexes 1 and 2 and do not say which is which.
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

found = compare(first, second, names=("sex 1", "sex 2"), progress=False)
print(found)

_, ax = plt.subplots(figsize=(8.0, 5.0), layout="constrained")
plot_comparison(found, ax=ax)

# %%
# Each row is a value of one measurement, with the ratio of the weights of sex 1 and sex 2 around it
# and an interval that holds for all rows together. Sex 1 has more patients of high HDL, low blood
# pressure and a low ratio of cholesterol to HDL, and a patient is told from one of the other sex
# with probability 0.77.

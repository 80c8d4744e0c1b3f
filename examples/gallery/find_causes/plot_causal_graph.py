"""
Causal graph of weather measurements
====================================

Which of four measurements are direct causes of each other? The data are 330 days of 1976 in Los
Angeles (Breiman and Friedman, *Journal of the American Statistical Association* 80, 1985,
580-598).
"""

from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
from bke.inference import causal_graph

# Days follow each other, and are taken for independent here.
days = pd.read_csv(Path(__file__).parents[2] / "data" / "ozone.csv").astype(float)
columns = ("Temp", "Hum", "Wind", "Ozone")
graph = causal_graph(days[list(columns)], columns=columns, kernel="median", progress=False)
print(graph)
for first, second in (("Temp", "Hum"), ("Temp", "Wind"), ("Wind", "Ozone")):
    print(f"There is no line between {first} and {second} because of:")
    for test in graph.separations(first, second):
        print(f"  {test}")

_, ax = plt.subplots(figsize=(5.2, 5.0), layout="constrained")
graph.plot(ax=ax)
ax.set_title("edges at level 0.05", loc="left")

# %%
# Lines join measurements that are dependent given any others, and have an arrow if the tests
# determine the direction. Ozone is joined with temperature and humidity, wind is joined with
# humidity only, and no direction is determined.

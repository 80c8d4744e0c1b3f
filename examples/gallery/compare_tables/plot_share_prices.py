"""
Correlations of share returns before and after 2000
===================================================

Which correlations between the monthly returns of companies changed in the year 2000? The data are
share prices of 1990 to 2022 that come with Matplotlib (its sample file ``Stocks.csv``, from Yahoo
Finance).
"""

import matplotlib.cbook as cbook
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from bke.inference import compare_tables

with cbook.get_sample_data("Stocks.csv") as file:
    prices = pd.read_csv(file, comment="#", index_col="Date", parse_dates=True)
prices = prices.dropna(subset="IBM")[["IBM", "AAPL", "MSFT", "XRX", "^GSPC"]].rename(
    columns={"^GSPC": "S&P 500"}
)
returns = 100.0 * np.log(prices).diff().iloc[1:]
is_late = returns.index >= "2000"
returns = returns.reset_index(drop=True)
comparison = compare_tables(
    returns[~is_late], returns[is_late], names=("1990s", "since 2000"), progress=False
)
print(comparison)

_, ax = plt.subplots(figsize=(7.0, 4.5), layout="constrained")
for row, pair in enumerate(comparison.pairs):
    color = "C1" if pair.reject else "0.6"
    first, second = pair.strengths
    arrow = {"arrowstyle": "->", "color": color, "linewidth": 2}
    ax.annotate("", xy=(second, row), xytext=(first, row), arrowprops=arrow)
ax.set_yticks(
    range(len(comparison.pairs)), [" and ".join(pair.columns) for pair in comparison.pairs]
)
ax.set(xlim=(0, 1), ylim=(-0.5, len(comparison.pairs) - 0.5))
ax.set_xlabel("correlation of ranks, from the 1990s to since 2000")

# %%
# Arrows go from the correlation in the 1990s to that since 2000, and orange arrows are significant
# changes. All ten correlations increased, but only the change of Apple with the S&P 500, from 0.29
# to 0.57, is significant (adjusted p = 0.02).

"""
Date of the decrease of coal mining disasters
=============================================

When would a sequential test of the yearly numbers of disasters have detected that mines became
safer? The data are the explosions with ten or more deaths in British mines, 1851 to 1961
(Jarrett, *Biometrika* 66, 1979, 191-193), of which the first 30 years are the reference.
"""

import matplotlib.pyplot as plt
import numpy as np
from bke.inference import Monitor, plot_monitor

# fmt: off
disasters = np.array([
    4, 5, 4, 0, 1, 4, 3, 4, 0, 6, 3, 3, 4, 0, 2, 6, 3, 3, 5, 4, 5, 3, 1, 4, 4, 1, 5, 5, 3, 4, 2, 5,
    2, 2, 3, 4, 2, 1, 3, 2, 2, 1, 1, 1, 1, 3, 0, 0, 1, 0, 1, 1, 0, 0, 3, 1, 0, 3, 2, 2, 0, 1, 1, 1,
    0, 1, 0, 1, 0, 0, 0, 2, 1, 0, 0, 0, 1, 1, 0, 2, 3, 3, 1, 1, 2, 1, 1, 1, 1, 2, 4, 2, 0, 0, 1, 4,
    0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 1, 0, 1,
])
# fmt: on

monitor = Monitor(disasters[:30, None], columns=["disasters"])
state = monitor.update(disasters[30:, None])
print(state)

_, ax = plt.subplots(figsize=(7.5, 4.0), layout="constrained")
plot_monitor(monitor, ax=ax)
ax.set_xlabel("years after 1880")

# %%
# The line is the wealth of bets on a change after each year, which reaches the threshold of an
# alarm, 20, with a probability of at most 0.05 in a series without a change. The alarm is in 1920,
# after 40 years, and the estimated change point is 1888 (90 % interval 1881 to 1892).

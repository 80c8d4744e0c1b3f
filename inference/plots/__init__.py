"""Plots: every function takes runs or arrays and returns a matplotlib ``Figure``.

Functions draw on axes that are passed, or else on a new figure. They do not show it, and change
neither the current figure nor the settings of pyplot.
"""

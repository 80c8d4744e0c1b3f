"""Pictures: every function takes runs or arrays and returns a matplotlib ``Figure``.

Given axes are drawn on, else a new figure is made. Nothing is shown, and neither pyplot's current
figure nor its settings are touched.
"""

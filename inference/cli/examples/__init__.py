"""Small data sets and the commands to try on them, which ``bke examples`` writes."""

"""Sums that stand for data which cannot be kept, moved or shared."""

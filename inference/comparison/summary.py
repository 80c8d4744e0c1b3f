"""Numbers and regions of a comparison as text."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..permutation.null_distribution import describe_p
from .regions import Region

#: Largest number of intervals of a region, and of columns whose bandwidths are listed.
MAX_INTERVALS, MAX_BANDWIDTHS = 3, 3
#: Odds above which only this bound is written.
MAX_ODDS = 1_000_000
#: Density ratios, smaller over larger, below this are described as almost no rows.
MIN_RATIO = 0.005


def format_odds(log_bayes_factor: float) -> str:
    """Format the odds of a difference, as a number above 1 for or against it."""
    size = abs(log_bayes_factor)
    number = f"more than {MAX_ODDS}"
    if size < math.log(MAX_ODDS):
        number = format_number(math.exp(size), 3)
    return f"{number} : 1 {'for' if log_bayes_factor >= 0.0 else 'against'} a difference"


def format_region(
    region: Region,
    names: tuple[str, str],
    columns: Sequence[str],
    scale: np.ndarray,
    *,
    n_resamples: int,
    confidence: str,
) -> str:
    """Describe a region in one sentence.

    Args:
        region: the region.
        names: names of the samples.
        columns: names of the columns.
        scale: (D,), standard deviations of the columns.
        n_resamples: number of permutations.
        confidence: confidence of the interval of the ratio, such as ``"95 %"``.
    """
    more, fewer = names if region.sign > 0 else names[::-1]
    amount = format_ratio(region, fewer, n_resamples, f"{confidence} CI")
    difference = f"higher density in {more} than in {fewer}, {amount}"
    if region.intervals:
        center, bandwidth = float(region.center[0]), float(region.bandwidth[0])
        intervals = " and ".join(
            f"[{format_at_scale(low, bandwidth)}, {format_at_scale(high, bandwidth)}]"
            for low, high in region.intervals[:MAX_INTERVALS]
        )
        intervals += ", ..." * (len(region.intervals) > MAX_INTERVALS)
        return (
            f"{columns[0]} in {intervals}: {difference} at the peak, "
            f"{format_at_scale(center, bandwidth)}, with bandwidth {format_number(bandwidth, 3)}."
        )
    center_text, bandwidth_text = (
        ", ".join(
            f"{columns[index]} {format_at_scale(values[index], region.bandwidth[index])}"
            for index in region.columns
        )
        for values in (region.center, region.bandwidth)
    )
    if len(region.columns) > MAX_BANDWIDTHS:  # equal in standard deviations
        deviations = format_number(float(region.bandwidth[0] / scale[0]), 3)
        bandwidth_text = f"{deviations} standard deviations of each column"
    return f"Around {center_text}: {difference}; bandwidth {bandwidth_text}."


def format_ratio(region: Region, fewer: str, n_resamples: int, confidence: str) -> str:
    """Format the larger density of a region over the smaller one, with its interval and p-value.

    Args:
        region: the region.
        fewer: name of the sample with the smaller density.
        n_resamples: number of permutations.
        confidence: what precedes the interval, such as ``"95 % CI"``.
    """
    p = describe_p(region.pvalue, n_resamples)
    ratio, low, high = (
        (region.ratio, *region.ratio_interval)
        if region.sign > 0
        else (_inverse(value) for value in (region.ratio, *region.ratio_interval[::-1]))
    )
    if ratio > 1.0 / MIN_RATIO:
        amount = "no" if math.isinf(ratio) else "almost no"
        lowest = format_ratios(low)[0]
        return f"{amount} rows from {fewer}, at least {lowest} times ({confidence}; {p})"
    middle, low_text, high_text = format_ratios(ratio, low, high)
    ends = f"{low_text} to {high_text}" if math.isfinite(high) else f"at least {low_text}"
    return f"{middle} times ({confidence} {ends}; {p})"


def _inverse(ratio: float) -> float:
    return 1.0 / ratio if ratio > 0.0 else math.inf


def format_ratios(*ratios: float) -> list[str]:
    """Format ratios with two digits of their distance from 1, or from 0 if they are small.

    Ratios from 0.1 to 10 have equally many digits.
    """
    digits = 2
    between = [ratio for ratio in ratios if 0.1 <= ratio < 10.0]
    for ratio in between:
        if distance := abs(ratio - 1.0):
            digits = min(max(digits, 1 - math.floor(math.log10(distance))), 6)
    return [
        f"{ratio:.{digits}f}" if ratio in between else f"{ratio:.{3 if ratio >= 10.0 else 2}g}"
        for ratio in ratios
    ]


def format_at_scale(value: float, scale: float) -> str:
    """Format a number with three digits, or as many as show a tenth of ``scale``."""
    if not value or not math.isfinite(value):
        return f"{value:g}"
    digits = math.floor(math.log10(abs(value))) - math.floor(math.log10(scale)) + 2
    return format_number(value, min(max(3, digits), 15))


def format_number(value: float, digits: int) -> str:
    """Format a number with a number of digits, without exponent from 1e-4 to 1e6."""
    rounded = f"{value:.{digits}g}"
    return f"{float(rounded):.15g}" if 1e-4 <= abs(value) < 1e6 else rounded

"""The landmark model: observations are seen through their kernels with a few fixed points."""

from .choice import choose_landmarks
from .likelihood import landmark_gaussian
from .model import Landmark, LandmarkLikelihood, landmark_log_likelihood, landmark_view
from .sums import LandmarkSums, merged_each, sums_of_view
from .view import LandmarkView, check_apart, in_parts

__all__ = [
    "Landmark",
    "LandmarkLikelihood",
    "LandmarkSums",
    "LandmarkView",
    "check_apart",
    "choose_landmarks",
    "in_parts",
    "landmark_gaussian",
    "landmark_log_likelihood",
    "landmark_view",
    "merged_each",
    "sums_of_view",
]

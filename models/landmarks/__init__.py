"""The landmark model: observations are seen through their kernels with a few fixed points."""

from .choice import choose_landmarks
from .likelihood import landmark_log_likelihood
from .sums import LandmarkSums, landmark_sums

__all__ = ["LandmarkSums", "choose_landmarks", "landmark_log_likelihood", "landmark_sums"]

"""Evidence that two samples differ, by every relabelling: the statistics of a comparison."""

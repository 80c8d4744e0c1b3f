"""Where two samples differ: draws of the witness function, and the witness of a test."""

"""The difference of two samples as a model of the labels of their pooled rows."""

"""Anytime-valid tests of streams of rows against a reference."""

"""Processes, devices, files, errors and HTML representation: used by all other packages."""

"""Processes, devices, files, errors and HTML representation: what every other package builds on."""

"""The machine: devices, processes, compilation, progress, and files written whole or not at all."""

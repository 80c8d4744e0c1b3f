"""Read samples, tables and streams from files and data frames."""

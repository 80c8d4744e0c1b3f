"""The options, each declared once, in groups that commands take as a whole."""

"""How it is learned, checked and shown."""

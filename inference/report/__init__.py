"""What was found, in words and as plain data."""

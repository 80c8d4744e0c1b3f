"""The ways to a posterior, one file each, and how one is named or chosen."""

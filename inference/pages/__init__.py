"""Pages: one file of HTML that needs no network, for a phone, a printer or the dark."""

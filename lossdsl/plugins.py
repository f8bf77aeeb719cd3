"""What the installed plugins bring."""

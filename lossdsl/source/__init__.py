"""Source text, places in it, and diagnostics: the leftmost room, which imports nothing of lossdsl."""

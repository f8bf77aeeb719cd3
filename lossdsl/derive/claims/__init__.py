"""What a file claims of its loss, decided: by the rewrite rules and the intervals, or at points in high precision."""

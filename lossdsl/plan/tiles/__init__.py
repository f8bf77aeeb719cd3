"""Tiles of a matrix that is never whole: which losses can be computed so, and by which programs."""

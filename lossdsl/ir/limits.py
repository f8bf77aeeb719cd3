"""Bounds on what a file may become, so that compiling any file ends within 5 seconds and 1 GiB.

The largest loss of the packs has 130 operations, 1600 with all its derivatives, and programs of 1100 statements.
"""

from __future__ import annotations

MOST_NODES = 1_000  # of a graph, before it is derived
MOST_DERIVED = 6_000  # of a graph with its derivatives, those included that turned out not to be needed
MOST_STATEMENTS = 6_000  # of a program


class TooLargeError(Exception):
    """A graph or program beyond its bound; the pipeline turns it into a Diagnostic."""

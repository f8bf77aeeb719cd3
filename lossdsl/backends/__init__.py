"""Backends: `api.py` is all that one may import, `hooks.py` how one is declared, `manager.py` how they are found."""

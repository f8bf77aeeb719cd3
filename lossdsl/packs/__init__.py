"""Packs: folders of `.loss` files, found without importing or parsing anything.

A pack is data. Its folder is named by an entry point in the group `lossdsl.losses`; `files.py` lists it, `header.py`
reads the few lines at a file's head that `lossdsl list` shows, `lookup.py` finds a loss by the name a person gives.
"""

"""The rewrite rules, by what they are about; `ir/rewrite.py` says how they are used."""

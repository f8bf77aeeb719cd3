"""The language server: what an editor asks while a file is written. `server.py` alone knows the protocol."""

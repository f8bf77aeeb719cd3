"""A process either compiles Triton's kernels or interprets them: `make test` starts one for each."""

from __future__ import annotations

import os

collect_ignore = [] if os.environ.get("TRITON_INTERPRET") == "1" else ["interpreted"]
if os.environ.get("TRITON_INTERPRET") == "1":
    collect_ignore = ["test_offline.py"]

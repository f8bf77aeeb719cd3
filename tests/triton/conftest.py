"""A process either compiles Triton's kernels or interprets them: `make test` starts one for each."""

from __future__ import annotations

import os

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
COMPILED = ["test_as_launched.py", "test_hosts.py", "test_offline.py", "test_refused.py", "test_suite.py"]
collect_ignore = COMPILED if INTERPRETED else ["interpreted"]

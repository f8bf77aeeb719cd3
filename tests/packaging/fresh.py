"""A fresh environment for a test: its own venv, in which what this one has can be imported, and nothing downloaded."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

SHIMS = {
    "lossdsl": "from lossdsl.cli import main\nmain()\n",
    "pytest": "import sys, pytest\nsys.exit(pytest.main(['-q', '-p', 'no:cacheprovider', *sys.argv[1:]]))\n",
    "pip": "import subprocess, sys\n"
    "sys.exit(subprocess.call([{pip!r}, '-m', 'pip', '--python', sys.executable, *sys.argv[1:]]))\n",
}


def venv(folder: Path) -> dict[str, str]:
    """Make it; the variables with which a command runs in it. pip builds and installs, but fetches nothing."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    python = folder / "bin" / "python"
    [site] = folder.glob("lib/python*/site-packages")
    around = [path for path in sys.path if path.endswith("site-packages")]
    lines = [f"import site; site.addsitedir({path!r})" for path in around]
    (site / "around.pth").write_text("\n".join(lines) + "\n")
    for name, text in SHIMS.items():
        script = folder / "bin" / name
        script.write_text(f"#!{python}\n" + text.replace("{pip!r}", repr(sys.executable)))
        script.chmod(0o755)
    pip = {"PIP_NO_INDEX": "1", "PIP_NO_DEPS": "1", "PIP_NO_BUILD_ISOLATION": "false", "PIP_QUIET": "1"}
    kept = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "LOSSDSL_DISABLE")}
    return {**kept, **pip, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}


def sh(command: str, cwd: Path, variables: dict[str, str]) -> str:
    """Run a command line; what it says on stdout. AssertionError with all of it if it fails."""
    done = subprocess.run(["bash", "-c", command], cwd=cwd, env=variables, capture_output=True, text=True)
    assert done.returncode == 0, f"$ {command}\n{done.stdout}{done.stderr}"
    return done.stdout


def console(page: str) -> list[tuple[str, str]]:
    """The commands of a page's console blocks, in order, each with what it is said to print ("" for anything)."""
    found: list[tuple[str, str]] = []
    for block in re.findall(r"^```console\n(.*?)^```", page, re.MULTILINE | re.DOTALL):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], ""))
            else:
                found[-1] = (found[-1][0], found[-1][1] + line + "\n")
    return found

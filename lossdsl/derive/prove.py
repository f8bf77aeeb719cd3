"""Proofs about a loss, each in a child process with limits on time and memory: `python -m lossdsl.derive.prove`.

Time is what the child computes, so that a machine that is busy with something else, or was paused, turns no proof into
none; the parent's clock, which runs `PATIENCE` times as long, is for a child that does nothing.

The child reads one JSON object from its input and writes one a line, each replacing the one before: a proof that is
cut short leaves what it had found. The parent imports no sympy and never waits longer than it was told.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from lossdsl.check.typed import CheckedLoss
from lossdsl.derive.derive import derive
from lossdsl.derive.limits import hold_at_most, ring_after
from lossdsl.derive.transport import from_json, to_json
from lossdsl.ir.graph import Graph, JointGraph
from lossdsl.ir.lower import lower
from lossdsl.registry import Registry, base_registry
from lossdsl.source.diagnostic import InternalError

KILLED = (-9, -24, -27)  # by the parent's clock or the system, or by the child's own (SIGXCPU, SIGPROF)
POINTS = 3
TIMEOUT = 20.0  # seconds of computing
LOADING = 30.0  # more for a child's start
PATIENCE = 10  # how much longer than it may compute a child is waited for
MEMORY = 3 * 2**30  # bytes of address space


@dataclass(frozen=True, slots=True)
class Proof:
    """What became of the claim that the derived gradient is the gradient.

    proved      sympy reduces the difference to 0 symbolically, wherever the branches are those of the first point
    held        equal to 40 digits at `points` points
    refuted     different: `detail` names the entry, both values and the point
    timeout     nothing was found in the time, or with the memory, that was given
    unwritten   the loss has an operation that can't be written out; `detail` names it
    """

    status: Literal["proved", "held", "refuted", "timeout", "unwritten"]
    points: int = 0
    detail: str = ""

    def __str__(self) -> str:
        if self.status == "held":
            return f"held at {self.points} point{'s' if self.points != 1 else ''}"
        return self.status + (f": {self.detail}" if self.detail else "")


def prove_gradient(checked: CheckedLoss, registry: Registry, timeout: float = TIMEOUT, memory: int = MEMORY) -> Proof:
    """Whether the gradient that is derived for this loss is the one that sympy derives from its value."""
    graph = lower(checked, registry)
    defaults = {p.name: p.default for p in checked.params if isinstance(p.default, float | int)}
    return prove_graph(graph, derive(graph, registry), registry, defaults, timeout, memory)


def prove_graph(
    graph: Graph,
    joint: JointGraph,
    registry: Registry,
    defaults: dict[str, float] | None = None,
    timeout: float = TIMEOUT,
    memory: int = MEMORY,
) -> Proof:
    """As `prove_gradient`, of a Graph and what was derived from it; the first point has these params."""
    known = base_registry().primitives  # the child finds no plugins
    foreign = sorted({node.op for node in graph.nodes if node.op in registry.primitives and node.op not in known})
    if foreign:
        return Proof("unwritten", 0, foreign[0])
    request = {
        "graph": to_json(graph),
        "joint": to_json(joint.graph),
        "defaults": defaults or {},
        "points": POINTS,
        "memory": memory,
        "timeout": timeout,
    }
    # -P: a file of the working directory that is called sympy.py is not what is meant.
    command = [sys.executable, "-P", "-m", "lossdsl.derive.prove"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=_environment(), text=True
    ) as child:
        try:
            out, err = child.communicate(json.dumps(request), PATIENCE * timeout + LOADING)
        except subprocess.TimeoutExpired:
            child.kill()
            out, err = child.communicate()
    lines = [line for line in out.splitlines() if line.endswith("}")]
    if lines:
        return Proof(**json.loads(lines[-1]))
    short = "MemoryError" in err or "Cannot allocate memory" in err  # whose memory gave out, in Python or in a call
    if child.returncode not in (0, *KILLED) and not short:
        raise InternalError(f"the proof of {graph.name} failed:\n{err[-2000:]}")
    return Proof("timeout")


def settle(claims: Sequence[Mapping[str, Any]], timeout: float = TIMEOUT, memory: int = MEMORY) -> list[bool]:
    """Whether sympy shows each claim (requests of `derive/claims/by_algebra.py`), each within `timeout` seconds.

    One child takes them in turn, and gives up on a claim when it has computed that long. Where it doesn't answer, or
    runs out of memory, another goes on with the next.
    """
    found: list[bool] = []
    while len(found) < len(claims):
        for answer in _answers(claims[len(found) :], timeout, memory):
            found.append(answer)
    return found


def _answers(claims: Sequence[Mapping[str, Any]], timeout: float, memory: int) -> Iterator[bool]:
    """Answers up to the first that doesn't come in time, which is no."""
    lines: queue.Queue[str] = queue.Queue()
    command = [sys.executable, "-P", "-m", "lossdsl.derive.prove"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=_environment(), text=True
    ) as child:
        assert child.stdin is not None
        assert child.stderr is not None
        threading.Thread(target=_read, args=(child.stdout, lines), daemon=True).start()
        try:
            child.stdin.write(json.dumps({"claims": list(claims), "memory": memory, "timeout": timeout}))
            child.stdin.close()
            for i in range(len(claims)):
                line = lines.get(timeout=PATIENCE * timeout + (LOADING if i == 0 else 0))
                if not line:
                    break
                yield json.loads(line)["shown"]
            else:
                return
        except (queue.Empty, BrokenPipeError):
            pass
        child.kill()
        error = child.stderr.read()
        if "Error" in error and "MemoryError" not in error:
            raise InternalError(f"a proof failed:\n{error[-2000:]}")
        yield False


def _read(stream: Any, lines: queue.Queue[str]) -> None:
    """Hands on line by line what comes; an empty one at the end."""
    for line in stream:
        lines.put(line)
    lines.put("")


def _environment() -> dict[str, str]:
    return {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


# --- the child --------------------------------------------------------------------------------------------------


def prove(request: dict[str, Any]) -> Iterator[Proof]:
    """The proofs so far, better ones last: after each point, and after the attempt to do without points."""
    from lossdsl.derive.symbolic.compare import compare, symbolically
    from lossdsl.derive.symbolic.written import NotWrittenError, UnsuitableError

    graph, joint = from_json(request["graph"]), JointGraph(from_json(request["joint"]))
    registry = base_registry()
    held, first = 0, None
    for seed in range(4 * request["points"]):
        if held == request["points"]:
            break
        given = request["defaults"] if seed == 0 else {}
        try:
            wrong = compare(graph, joint, registry, seed, given)
        except UnsuitableError:
            continue
        except NotWrittenError as error:
            yield Proof("unwritten", 0, str(error))
            return
        if wrong:
            w = wrong[0]
            yield Proof("refuted", held, f"{w.entry} is derived as {w.derived}, but is {w.sympy} at {w.at}")
            return
        held, first = held + 1, seed if first is None else first
        yield Proof("held", held)
    if first is None:
        yield Proof("timeout", 0, "no point was found at which the loss is finite and smooth")
    elif symbolically(graph, joint, registry, first, request["defaults"] if first == 0 else {}):
        yield Proof("proved", held)


def main() -> int:
    """Reads a request from the input, and writes proofs."""
    from lossdsl.derive.symbolic.claims import answers

    request = json.load(sys.stdin)
    hold_at_most(request["memory"])
    if "claims" in request:
        for shown in answers(request["claims"], base_registry(), request["timeout"]):
            print(json.dumps({"shown": shown}), flush=True)
        return 0
    ring_after(request["timeout"])
    for proof in prove(request):
        print(json.dumps(asdict(proof)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""How exact the losses of the library are: measured one by one and kept, then counted in benchmarks/accuracy.md.

    python benchmarks/accuracy.py [--backend B]… [--dtype D]… [--precise] [LOSS…]   measure what isn't known
    python benchmarks/accuracy.py --table                                          write the tables

A record lies in benchmarks/out/accuracy with the hashes of what its numbers hang on: the kernels' text, the equation,
its rows, and how errors are judged. A loss of which none has changed isn't measured again: a run may be stopped and
started, and after a change takes as long as what has changed. Exact numbers are kept by equation and rows alone.
"""

from __future__ import annotations

import argparse
import inspect
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import mpmath
import numpy as np

import lossdsl
from lossdsl.accuracy import exact, measure, rows, table, terms
from lossdsl.api import Spec, registry
from lossdsl.artifacts import cache
from lossdsl.artifacts.artifact import publish
from lossdsl.backends.manager import BackendError
from lossdsl.derive.errors import NotDifferentiableError
from lossdsl.ir.digits import multiprecision
from lossdsl.ir.dump import dump

KEPT = Path(__file__).with_name("out") / "accuracy"
PAGE = Path(__file__).with_name("accuracy.md")
DIGITS = 50  # that are kept of 110: sums of rows cancel to 1e-40
COLUMNS = {  # backend, dtype, whether precise
    "torch": ("torch", "float32", False),
    "C++": ("cpu", "float32", False),
    "Triton (interpreted)": ("triton", "float32", False),
    "bfloat16 in (torch)": ("torch", "bfloat16", False),
    "bfloat16 in (C++)": ("cpu", "bfloat16", False),
    "float16 in (torch)": ("torch", "float16", False),
    "precise (torch)": ("torch", "float32", True),
    "typed in torch": (table.BY_HAND, "float32", False),
}
SURE = {  # what excuses the numbers of a loss that are beyond their bars, and is no fault of arithmetic
    "beyond some, as for inputs up to two last places away (`inputs`, `backward`)": ("inputs", "backward"),
    "also at jumps and steep places, or beyond what float32 holds (`near`, `range`)": ("near", "range"),
    "also where the number is 0, or less than 2^-48 of what is added up in it (`zero`)": ("zero",),
}
UNSURE = sorted({*measure.WORDS} - {"miss"} - {reason for of in SURE.values() for reason in of})
TIERS: Mapping[str, Sequence[str]] = {
    "within every bar, nothing excused": (),
    **SURE,
    f"also by the size of what is added up alone ({', '.join(f'`{x}`' for x in UNSURE)})": UNSURE,
    "missed somewhere (typed in torch: beyond some bar)": ("miss", "beyond"),
}
WORDS = {**measure.WORDS, "beyond": "not looked at again"}  # of the reasons
Record = dict[str, Any]
Key = tuple[str, str, bool]


# --- measuring --------------------------------------------------------------------------------------------------------


def measured(name: str, backends: Sequence[str], dtype: str = "float32", precise: bool = False) -> list[str]:
    """Measure a loss on the backends of which no record is of today's state; which these were."""
    checked = lossdsl.load(name).checked
    try:
        loss = exact.written(checked, registry())
    except NotDifferentiableError:
        return []
    paths = {b: KEPT / f"{name.replace('/', '.')}.{b}.{dtype}{'.precise' * precise}.json" for b in backends}
    hashes = {b: hashes_of(loss, b, dtype, precise) for b in backends}
    stale = [b for b in backends if not is_current(paths[b], *hashes[b])]
    if stale:
        with remembered(loss, dtype) as exactly:
            found = table.accuracy(checked, registry(), stale, (dtype,), precise=precise, exactly=exactly)
        data = table.record(found)
    for b in stale:
        own = [r for r in data["reports"] if r["backend"] in (b, table.BY_HAND)]
        kept = dict(zip(("numbers", "judging"), hashes[b], strict=True))
        publish(paths[b], json.dumps({**data, "loss": name, "precise": precise, "reports": own, **kept}, indent=1))
    return stale


def hashes_of(loss: exact.Written, backend: str, dtype: str, precise: bool) -> tuple[str, str]:
    """Of what decides the numbers and their bars; of what decides the reasons of those beyond them."""
    try:
        kernels = str(lossdsl.compile(Spec(loss.checked), backend, precise=precise).manifest["identity"])
    except BackendError as error:
        kernels = str(error)
    package = find_spec(registry().backends[backend].emit.partition(".")[0])
    places = package.submodule_search_locations if package else None
    functions = [cache.content(path) for place in places or () for path in sorted(Path(place).glob("*_cpp.py"))]
    given = [of_rows(case) for case in rows.cases(loss.plain, loss.checked)]
    bars = [str(x) for x in (measure.VALUE, measure.GRADIENT, measure.SUM, measure.PRECISIONS[dtype])]
    numbers = cache.key([kernels, *functions, of_equation(loss), *given, *bars])
    return numbers, cache.key([inspect.getsource(measure), inspect.getsource(exact)])


def is_current(path: Path, numbers: str, judging: str) -> bool:
    """Whether a record is of this state. One without a number beyond its bar doesn't hang on the reasons for these."""
    if not path.exists():
        return False
    kept = json.loads(path.read_text())
    beyond = any(r["beyond"] for r in kept["reports"] if r["backend"] != table.BY_HAND)
    return bool(kept["numbers"] == numbers and (kept["judging"] == judging or not beyond))


# --- exact numbers ----------------------------------------------------------------------------------------------------


def of_equation(loss: exact.Written) -> str:
    how = map(inspect.getsource, (exact.exact, exact._numbers, exact._beyond))  # type: ignore[arg-type]
    graphs = (dump(loss.plain), dump(loss.rewritten))
    return cache.key([*graphs, str(sorted(loss.logits)), str(loss.rowwise), *how, inspect.getsource(terms)])


def of_rows(case: rows.Case) -> str:
    arrays = [f"{name} {x.shape} {x.tolist()}" for name, x in sorted(case.leaves.items())]
    return cache.key([*arrays, str(sorted(case.sizes.items()))])


@contextmanager
def remembered(loss: exact.Written, dtype: str) -> Iterator[Callable[[exact.Written, rows.Case], exact.Exact]]:
    """`table.exact_numbers` that keeps what it has found, by the hashes of equation and rows."""
    path = KEPT / "exact" / f"{loss.checked.name}.{of_equation(loss)[:16]}.{dtype}.json"
    known: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    before = len(known)

    def exactly(_: exact.Written, case: rows.Case) -> exact.Exact:
        name = of_rows(case)
        if name not in known:
            known[name] = as_data(table.exact_numbers(loss, case))
        return from_data(known[name])

    yield exactly
    if len(known) > before:
        publish(path, json.dumps(known))


def as_data(found: exact.Exact) -> dict[str, Any]:
    values = {n: [x.shape, [mpmath.nstr(v, DIGITS) for v in x.flat]] for n, x in found.values.items()}
    sizes = {n: x.tolist() for n, x in found.sizes.items()}
    spreads = [found.spread.tolist(), found.loose.tolist()]
    return {"values": values, "sizes": sizes, "spreads": spreads, "rest": [sorted(found.from_rules), found.beyond]}


def from_data(data: Mapping[str, Any]) -> exact.Exact:
    number = np.frompyfunc(type(multiprecision().constant(1)), 1, 1)
    values = {n: number(np.array(flat, dtype=object)).reshape(shape) for n, (shape, flat) in data["values"].items()}
    sizes = {n: np.asarray(x, dtype=np.float64) for n, x in data["sizes"].items()}
    spread, loose = (np.asarray(x, dtype=np.float64) for x in data["spreads"])
    from_rules, beyond = data["rest"]
    return exact.Exact(values, sizes, spread, loose, frozenset(from_rules), beyond)


# --- the tables -------------------------------------------------------------------------------------------------------


def kept() -> dict[Key, dict[str, Record]]:
    """All reports: by backend, dtype and whether precise, then by loss."""
    found: dict[Key, dict[str, Record]] = {}
    for path in sorted(KEPT.glob("*.json")):
        data = json.loads(path.read_text())
        for report in data["reports"]:
            key = (report["backend"], report["dtype"], data["precise"])
            found.setdefault(key, {})[data["loss"]] = report
    return found


def counted(of: Mapping[str, Record], kind: str, *reasons: str) -> dict[str, int]:
    """How many numbers of each loss are beyond their bars for some reasons, most first; losses without are left out."""
    counts = {n: sum(r[kind]["beyond"].get(reason, 0) for reason in reasons) for n, r in of.items()}
    return {n: counts[n] for n in sorted(counts, key=lambda n: (-counts[n], n)) if counts[n]}


def tables(found: Mapping[Key, Mapping[str, Record]]) -> dict[str, list[list[str]]]:
    """The tables of accuracy.md by name, each as rows of cells, the first of which is its head."""
    columns = {title: found[key] for title, key in COLUMNS.items() if key in found}
    worst = [Counter(map(tier, of.values())) for of in columns.values()]
    made = {"losses": [["every number of a loss is", *(f"{title}, of {len(of)}" for title, of in columns.items())]]}
    made["losses"] += [[words, *(str(tiers[i]) for tiers in worst)] for i, words in enumerate(TIERS)]
    for kind, name in (("gradient", "entries of gradients"), ("row_sum", "sums of rows")):
        total = {title: sum(r[kind]["numbers"] for r in of.values()) for title, of in columns.items()}
        looked = {t: n for t, n in total.items() if n and (kind, COLUMNS[t][0]) != ("row_sum", table.BY_HAND)}
        made[kind] = [[f"{name} / losses", *(f"{title}, of {n}" for title, n in looked.items())]]
        for reason, words in WORDS.items():
            each = [counted(columns[title], kind, reason) for title in looked]
            if any(each):
                made[kind].append([f"`{reason}`: {words}", *(f"{sum(x.values())} / {len(x)}" for x in each)])
    infinite = [[sum(r["not_finite"].values()) for r in of.values()] for of in columns.values()]
    made["gradient"].append(["infinite, NaN or finite where it should not be, values too"])
    made["gradient"][-1] += [f"{sum(counts)} / {sum(map(bool, counts))}" for counts in infinite]
    made["misses"] = [["loss", "missed in", "the first"]]
    missed = {title: {n: r["misses"][0] for n, r in of.items() if r["misses"]} for title, of in columns.items()}
    for name in sorted({n for of in missed.values() for n in of}):
        where = [title for title in columns if name in missed[title]]
        made["misses"].append([f"`{name}`", "; ".join(where), missed[where[0]][name]])
    for name, title, reasons in (("size", "torch", [*UNSURE]), ("precise", "precise (torch)", [*WORDS])):
        counts = counted(columns.get(title, {}), "gradient", *reasons)
        made[name] = [[f"entries, {title}", "losses"]]
        for n in dict.fromkeys(counts.values()):
            made[name].append([str(n), ", ".join(f"`{loss}`" for loss in counts if counts[loss] == n)])
    return made


def tier(report: Record) -> int:
    """The last of TIERS that a number of a loss needs."""
    return max((i for i, of in enumerate(TIERS.values()) if {*of} & report["beyond"].keys()), default=0)


def write(made: Mapping[str, Sequence[Sequence[str]]]) -> None:
    """Each table between its marks in accuracy.md."""
    page = PAGE.read_text(encoding="utf-8")
    for name, (head, *body) in made.items():
        start, end = f"<!-- table: {name} -->\n", "<!-- end -->\n"
        at = page.index(start) + len(start)
        lines = [head, ["---"] * len(head), *body]
        text = "".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |\n" for line in lines)
        page = f"{page[:at]}\n{text}\n{page[page.index(end, at) :]}"
    publish(PAGE, page)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("losses", nargs="*", metavar="LOSS", help="pack/name; all if none is named")
    parser.add_argument("--backend", action="append", help="may be repeated; torch and cpu if none is named")
    parser.add_argument("--dtype", action="append", choices=measure.PRECISIONS, help="of inputs; float32 if none")
    parser.add_argument("--precise", action="store_true", help="the losses with precise=True")
    parser.add_argument("--table", action="store_true", help="write the tables, and measure nothing")
    given = parser.parse_args()
    if given.table:
        return write(tables(kept()))
    backends = [table.on_cpu(registry(), b) for b in given.backend or ("torch", "cpu")]
    names = given.losses or sorted(registry().losses)
    for count, name in enumerate(names, 1):
        for dtype in given.dtype or ("float32",):
            new = measured(name, backends, dtype, given.precise)
            print(f"{count} of {len(names)}: {name}, {dtype}: {', '.join(new) or 'as it was'}", flush=True)


if __name__ == "__main__":
    main()

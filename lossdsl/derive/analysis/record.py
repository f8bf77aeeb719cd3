"""An analysis as plain data, and in words."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import isinf, pi
from typing import Any

from lossdsl.check.typed import CheckedLoss
from lossdsl.derive.analysis import extremes, properties, shape
from lossdsl.derive.claims.caveats import caveats
from lossdsl.derive.claims.setting import subject
from lossdsl.derive.prove import TIMEOUT
from lossdsl.registry import Registry
from lossdsl.syntax import ast

PARTS = ("properties", "bounds", "shapes")


def analyze(
    lossdef: ast.LossDef,
    checked: CheckedLoss,
    registry: Registry,
    settings: Mapping[str, float] | None = None,
    timeout: float = TIMEOUT,
    parts: Collection[str] = PARTS,
) -> dict[str, Any]:
    """What is found of a loss, everything or some of `PARTS`; DiagnosticError if it can't be compiled.

    Properties hold for all params or at the values given (the defaults, and `settings` over them), shapes at these.
    `timeout` is the seconds that sympy has for a proof (0: never asked).
    """
    about = subject(lossdef, checked, registry)
    values: dict[str, Any] = {p.name: p.default for p in checked.params if not p.modes} | dict(settings or {})
    at = properties.at_values(about, values)
    found: dict[str, Any] = {
        "name": checked.name,
        "params": {name: list(v) if isinstance(v, tuple) else v for name, v in values.items()},
    }
    if "properties" in parts:
        told = ", ".join(f"{name} = {_short(value)}" for name, value in values.items())
        held = properties.found_properties(about, at, told, timeout)
        held += [p for c in (2, 3) if (p := properties.calibrated(at, c)) is not None]
        found["properties"] = [{"claim": p.claim, "status": p.status, "detail": p.detail, "params": p.at} for p in held]
    if "bounds" in parts:
        low, high = extremes.bounds(at, timeout)
        but = caveats(at)
        found["bounds"] = {"lower": _bound(low, but), "upper": _bound(high, but)}
    if "shapes" in parts:
        form = shape.shape(at, _extents(checked, values))
        found |= {"probability": _in_p(form), "gradient": _weight(form), "margin": _in_margin(form)}
    return found


def _extents(checked: CheckedLoss, values: Mapping[str, Any]) -> dict[str, int]:
    """The extents of axes that params size, or have."""
    found = {p.axes[0]: len(values[p.name]) for p in checked.params if isinstance(values.get(p.name), tuple | list)}
    for axis in checked.axes:
        term = axis.size
        if term is not None and term.attrs and term.op == "const":
            found[axis.name] = int(term.attrs[0])  # type: ignore[arg-type]
        elif term is not None and term.attrs and term.attrs[0] in values:
            found[axis.name] = int(values[str(term.attrs[0])])
    return found


def _bound(b: extremes.Bound, but: str) -> dict[str, Any]:
    detail = b.detail + but if b.status == "proved" else b.detail
    found: dict[str, Any] = {"value": b.value, "status": b.status, "detail": detail}
    return found | ({"by_classes": {str(c): x for c, x in b.by_classes.items()}} if b.by_classes else {})


def _in_p(form: shape.Shape) -> dict[str, Any] | None:
    if form.in_p is None:
        return None
    series = shape.polynomial(form.in_p)
    return {
        "of": form.of,
        "classes": "any" if form.any_classes else 2,
        "polynomial": None if series is None else [{"power": e, "coefficient": c} for e, c in series],
        "at_0": shape.towards(form.in_p, "p -> 0"),
        "at_1": None if not series else {"power": series[0][0], "coefficient": series[0][1]},
        "values": [{"p": p, "loss": v} for p, v in shape.values(form.in_p, shape.PLACES)],
    }


def _weight(form: shape.Shape) -> dict[str, Any] | None:
    if form.weight is None:
        return None
    return {
        "form": "weight(p) * (softmax - e)",
        "weights": [{"p": p, "weight": w} for p, w in shape.values(form.weight, shape.PLACES)],
        "at_0": shape.towards(form.weight, "p -> 0"),
    }


def _in_margin(form: shape.Shape) -> dict[str, Any] | None:
    if form.in_margin is None:
        return None
    radius = shape.radius(form.in_margin)
    return {
        **({"of": form.side} if form.side else {}),
        "wrong": shape.towards(form.in_margin, "margin -> -inf"),
        "right": shape.towards(form.in_margin, "margin -> inf"),
        "radius": None if radius is None else "inf" if isinf(radius) else radius,
        "values": [{"margin": m, "loss": v} for m, v in shape.values(form.in_margin, shape.MARGINS)],
    }


TOLD = (0.01, 0.1, 0.5, 0.9, 0.99)  # the probabilities whose weights stand in the table

# --- in words ---------------------------------------------------------------------------------------------------------


def in_words(record: Mapping[str, Any]) -> str:
    """A table of the record for people."""
    rows = [(p["claim"], _status(p)) for p in record["properties"]]
    for side in ("lower", "upper"):
        bound = record["bounds"][side]
        rows.append((f"{side} bound", _bound_in_words(bound)))
    if record["probability"] is not None:
        rows += _probability_rows(record["probability"])
    if record["gradient"] is not None and record["gradient"]["weights"]:
        pairs = ", ".join(f"{w['weight']:.4g} at p = {w['p']}" for w in record["gradient"]["weights"] if w["p"] in TOLD)
        rows.append(("gradient", f"weight(p) * (softmax - e), weight {pairs}"))
        rows.append(("weight, p -> 0", _trend(record["gradient"]["at_0"], "1/p") + SEEN))
    if record["margin"] is not None:
        margin = record["margin"]
        if margin.get("of"):
            rows.append(("margin", margin["of"]))
        rows.append(("margin -> -inf", _trend(margin["wrong"], "margin")))
        rows.append(("margin -> inf", _trend(margin["right"], "margin")))
        rows.append(("radius along a step", _radius(margin["radius"])))
    width = max(len(name) for name, _ in rows)
    params = ", ".join(f"{name} = {_short(v)}" for name, v in record["params"].items())
    head = record["name"] + (f" at {params}" if params else "")
    return "\n".join([head, *(f"  {name:<{width}}  {text}" for name, text in rows)])


def _bound_in_words(bound: Mapping[str, Any]) -> str:
    match bound["status"]:
        case "proved":
            own = ", ".join(f"{_short(x)} for {c} classes" for c, x in bound.get("by_classes", {}).items())
            return f"{own or _short(bound['value'])} (proved {bound['detail']})"
        case "unbounded":
            return f"none: it grows {bound['detail']}"
        case "seen":
            return f"none known: {bound['detail']}"
    return f"not found: {bound['detail']}"


def _status(p: Mapping[str, Any]) -> str:
    where = f" at {p['params']}" if p["params"] and p["status"] != "refuted" else ""
    word = {"proved": "yes, proved", "held": "yes", "refuted": "no"}[p["status"]]
    return f"{word}{where}: {p['detail']}"


def _probability_rows(found: Mapping[str, Any]) -> list[tuple[str, str]]:
    classes = "any number of classes" if found["classes"] == "any" else "two classes"
    rows = [("p", f"the probability of {found['of']}")] if found["of"] != shape.TARGET else []
    series = found["polynomial"]
    if series is None:
        rows.append(("in 1 - p", f"no series found at p = 1 ({classes})"))
    elif not series:
        rows.append(("in 1 - p", f"0 near p = 1 ({classes})"))
    else:
        terms = " + ".join(map(_term, series))
        more = " + …" if series[-1]["power"] - series[0]["power"] >= shape.TERMS - 2 else ""
        rows.append(("in 1 - p", f"{terms}{more} ({classes})".replace("+ -", "- ")))
    rows.append(("p -> 0", _trend(found["at_0"], "1/p") + SEEN))
    if found["at_1"] is not None:
        rows.append(("p -> 1", f"like {_term(found['at_1'])}" if found["at_1"]["power"] else _term(found["at_1"])))
    return rows


def _term(t: Mapping[str, Any]) -> str:
    power = f"^{_short(t['power'])}" if t["power"] != 1 else ""
    return _short(t["coefficient"]) + (f" (1-p){power}" if t["power"] else "")


SEEN = " (seen down to p = 1e-45)"


def _trend(found: Mapping[str, Any] | None, of: str) -> str:
    if found is None:
        return "not found"
    match found["kind"]:
        case "bounded":
            return f"tends to {_short(found['limit'])}"
        case "linear" | "logarithmic":
            within = " in log(1/p)" if of == "1/p" else f" in log|{of}|" if found["kind"] == "logarithmic" else ""
            return f"{found['kind']}, slope {found['slope']:.5g}{within}"
        case "power":
            return f"like {of} to the power {found['exponent']:.4g}"
        case "exponential":
            return f"exponential, rate {found['rate']:.4g}"
    return str(found["kind"])


def _radius(radius: float | str | None) -> str:
    if radius is None:
        return "not found"
    if radius == 0:
        return "0: not analytic at a tie"
    if radius == "inf":
        return "infinite"
    told = "π" if radius == pi else f"about {float(radius):.3g}"
    return f"{told}/Δ for a step of length Δ of the target's logit from a tie"


def _short(x: Any) -> str:
    if isinstance(x, tuple | list):
        return f"[{', '.join(map(_short, x))}]"
    return f"{x:.6g}" if isinstance(x, float | int) else str(x)

"""The class and the function of a generated module."""

from __future__ import annotations

from collections.abc import Sequence

from lossdsl.artifacts.describe import Table, default_of
from lossdsl.artifacts.literals import Apply, Dict, Literal, Name, docstring_text, literal, number
from lossdsl.check.typed import CheckedLoss

Setting = tuple[str, str, str]  # name, type, default


def class_text(checked: CheckedLoss, table: Table, name: str, options: Sequence[Setting]) -> str:
    """`class Focal(Loss)`, with everything that can be set as a keyword of its own."""
    settings = _settings(table)
    named = {n for n, _, _ in options}
    tail = [Name("memory")] if "memory" in named else []
    more = (("inplace", Name("inplace")),) if "inplace" in named else ()
    keywords = (*settings, *options)
    params = Dict(tuple((n, Name(n)) for n, _, _ in settings))
    passed = (Name("params"), *(Name(n) for n, _, _ in options if n != "inplace"))
    made = Apply("super().__init__", passed, more)
    arguments = (
        _names(_input_names(table)),
        _names([n for n, _, _ in settings]),
        *(Name(n) for n, _, _ in options if n not in ("memory", "inplace")),
        Name("aux"),
        Name("check"),
        *tail,
    )
    return "".join(
        [
            f"class {name}(Loss):\n",
            f'    """{_summary(checked)}\n\n',
            _block(docstring_text(_shapes(table)).split("\n"), 4),
            '    """\n\n',
            "    compiled = COMPILED\n\n",
            "    def __init__(\n        self,\n        *,\n",
            _block([f"{n}: {t} = {d}," for n, t, d in keywords], 8),
            "    ) -> None:\n",
            f"        params = {literal(params, 8, 9, 0)}\n",
            f"        {literal(made, 8, 0, 0)}\n\n",
            "    def forward(\n        self,\n",
            _block(_inputs(table), 8),
            "        *,\n",
            _block([f"{n}: {_optional(t)} = None," for n, t, _ in keywords], 8),
            "        aux: bool = False,\n        check: bool = False,\n",
            f"    ) -> {_result(checked)}:\n",
            _returned(checked, Apply("self.call", arguments, more), 8),
        ]
    )


def function_text(checked: CheckedLoss, table: Table, name: str, of: str, options: Sequence[Setting]) -> str:
    """`def focal(…)`: the class's value without a module."""
    settings = _settings(table)
    named = {n for n, _, _ in options}
    tail = [Name("memory")] if "memory" in named else []
    more = (("inplace", Name("inplace")),) if "inplace" in named else ()
    arguments = (
        Name("COMPILED"),
        _names(_input_names(table)),
        _names([n for n, _, _ in settings]),
        *(Name(n) for n, _, _ in options if n not in ("memory", "inplace")),
        Name("aux"),
        Name("check"),
        *tail,
    )
    return "".join(
        [
            f"def {name}(\n",
            _block(_inputs(table), 4),
            "    *,\n",
            _block([f"{n}: {t} = {d}," for n, t, d in (*settings, *options)], 4),
            "    aux: bool = False,\n    check: bool = False,\n",
            f") -> {_result(checked)}:\n",
            f'    """The same as a function: see `{of}`."""\n',
            _returned(checked, Apply("functional", arguments, more), 4),
        ]
    )


def _returned(checked: CheckedLoss, call: Apply, indent: int) -> str:
    result = _result(checked)
    text = literal(call, indent, len(f"loss: {result} = "), 0)
    pad = " " * indent
    return f"{pad}loss: {result} = {text}\n{pad}return loss\n"


def _summary(checked: CheckedLoss) -> str:
    doc = checked.doc.strip() or f"The loss {checked.name}."
    return docstring_text(doc.split("\n\n")[0].replace("\n", "\n    "))


def _shapes(table: Table) -> str:
    lines = []
    for i in table.inputs:
        axes = f"[{', '.join(i.axes)}]" if i.axes else ""
        notes = [*([i.kind] if i.kind != "real" else []), *(["fixed"] if i.fixed else [])]
        lines.append(f"{table.names[i.name]}{axes}" + (f": {' '.join(notes)}" if notes else ""))
    return "\n".join(lines)


def _input_names(table: Table) -> list[str]:
    return [table.names[i.name] for i in table.inputs]


def _inputs(table: Table) -> list[str]:
    """The parameters that are tensors; after the first optional one all are, as Python asks."""
    lines, optional = [], False
    for i in table.inputs:
        optional = optional or i.default is not None or i.draw is not None
        kind = "Tensor" if i.axes else "float | Tensor"
        end = " | None = None," if optional else ","
        lines.append(f"{table.names[i.name]}: {kind}{end}")
    return lines


def _settings(table: Table) -> list[Setting]:
    """What is set by keyword: params, sizes of axes, the ignored index; in the order of Signature.params."""
    found: list[Setting] = []
    for p in table.params:
        default = default_of(p)
        if isinstance(default, tuple):
            found.append((table.names[p.name], "tuple[float, ...] | Tensor", literal(default)))
        else:
            found.append((table.names[p.name], f"{'int' if p.integer else 'float'} | Tensor", number(default)))
    found += [(table.names[axis], "int", str(size)) for axis, size in table.axes]
    if table.ignores:
        found.append(("ignore_index", "int | None", "None"))
    return found


def options(checked: CheckedLoss, tiled: bool, headed: bool, inplace: bool) -> list[Setting]:
    """What every loss can be told besides its params; `memory` where its matrix is computed by tiles, `inplace` where a
    gradient can be written over the input that it is of."""
    found = [
        ("reduction", "str", f'"{checked.reduction or "mean"}"'),
        ("denominator", "str | float | Tensor", '"valid"'),
        ("empty", "str", '"zero"'),
        ("class_dim", "int", "-1" if headed else "1"),
    ]
    found += [("memory", "int | str", '"64MiB"')] if tiled else []
    return [*found, ("inplace", "bool", "False")] if inplace else found


def _optional(kind: str) -> str:
    return kind if kind.endswith("| None") else f"{kind} | None"


def _result(checked: CheckedLoss) -> str:
    """With named outputs a call may return a pair."""
    return "Any" if checked.outputs else "Tensor"


def _names(names: Sequence[str]) -> Literal:
    return tuple(Name(n) for n in names)


def _block(lines: Sequence[str], indent: int) -> str:
    return "".join(f"{' ' * indent}{line}".rstrip(" ") + "\n" if line else "\n" for line in lines)

"""Random programs for hypothesis: syntactically right files, of which few mean anything."""

from __future__ import annotations

from functools import cache
from typing import Any

from hypothesis import strategies as st

from lossdsl.syntax import ast
from lossdsl.syntax.words import DRAWS, NOT_ARGUMENTS, RESERVED

# Statement words, words of kinds and of conditions are soft: they are names wherever a name can stand.
_SOFT = ("loss", "input", "axis", "claim", "return", "when", "gives", "learnable", "fixed", "index", "root", "list")
_TEXT = st.text(st.characters(exclude_characters='"\n', exclude_categories=["Cs"]), max_size=20)


@cache
def names() -> st.SearchStrategy[str]:
    """Names of values, soft words and other alphabets among them."""
    plain = st.from_regex(r"[a-zγéя終][a-z0-9_δ終]{0,6}", fullmatch=True).filter(lambda n: n not in RESERVED)
    return st.one_of(st.sampled_from("abcxyz"), plain, st.sampled_from(_SOFT))


@cache
def axes() -> st.SearchStrategy[ast.AxisRef]:
    """Axes and their copies."""
    return st.from_regex(r"[A-DKNΓ][a-z0-9]{0,2}'{0,2}", fullmatch=True).map(ast.AxisRef)


def _several(items: st.SearchStrategy[Any], least: int = 0, most: int = 3) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(items, min_size=least, max_size=most).map(tuple)


def _perhaps(items: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(st.none(), items)


@cache
def _leaves() -> st.SearchStrategy[ast.Expr]:
    number = st.from_regex(r"[0-9]{1,4}(\.[0-9]{1,4})?([eE][+-]?[0-9]{1,2})?", fullmatch=True).map(ast.Number)
    primed = st.builds(ast.Primed, names(), st.integers(1, 3))
    return st.one_of(names().map(ast.Name), number, axes(), primed)


def _arguments(inner: st.SearchStrategy[ast.Expr]) -> st.SearchStrategy[ast.Argument]:
    name = _perhaps(names().filter(lambda n: n not in NOT_ARGUMENTS))
    return st.builds(ast.Argument, inner, _perhaps(inner), _perhaps(inner), name)


def _calls(inner: st.SearchStrategy[ast.Expr]) -> st.SearchStrategy[ast.Call]:
    maps = st.one_of(
        st.builds(ast.AxisMap, axes()),
        st.builds(ast.AxisMap, axes(), axes(), st.booleans()),
    )
    return st.builds(ast.Call, names(), _several(maps), _several(_arguments(inner)))


def _larger(inner: st.SearchStrategy[ast.Expr]) -> st.SearchStrategy[ast.Expr]:
    operator = st.sampled_from(["+", "-", "*", "/", "^", "<", "<=", ">", ">=", "==", "!=", "and", "or"])
    return st.one_of(
        st.builds(ast.Binary, operator, inner, inner),
        st.builds(ast.Unary, st.sampled_from(["-", "not"]), inner),
        _calls(inner),
        st.builds(ast.If, inner, inner, inner),
        st.builds(ast.Pick, inner, inner),
        st.builds(ast.Substitute, inner, _several(st.builds(ast.Substitution, axes(), inner), 1)),
        st.builds(ast.Vector, _several(inner, 1)),
        st.builds(ast.Root, names(), inner, inner, inner),
        st.builds(ast.Pipe, inner, _calls(inner)),
    )


@cache
def expressions(leaves: int = 12) -> st.SearchStrategy[ast.Expr]:
    """Expressions of every form, with about so many leaves at most."""
    return st.recursive(_leaves(), _larger, max_leaves=leaves)


@cache
def _kinds() -> st.SearchStrategy[ast.Kind]:
    return st.one_of(
        st.sampled_from([ast.Kind("real"), ast.Kind("bool"), ast.Kind("int"), ast.Kind("label")]),
        st.builds(ast.Kind, st.just("prob"), axes()),
        st.builds(ast.Kind, st.just("index"), axes(), st.booleans()),
    )


@cache
def _declarations() -> st.SearchStrategy[ast.Decl]:
    small = expressions(3)
    item = st.builds(ast.Item, names(), _several(axes()))
    bounds = st.builds(ast.Bounds, small, small, st.booleans(), st.booleans())
    default = st.one_of(st.fixed_dictionaries({"default": small}), st.sampled_from([{}, *({"draw": d} for d in DRAWS)]))
    domain = st.one_of(
        st.just({}),
        st.fixed_dictionaries({"bounds": bounds}),
        st.fixed_dictionaries({"modes": _several(names().map(ast.Name), 1)}),
    )
    size: st.SearchStrategy[dict[str, Any]] = st.one_of(
        st.just({}), st.fixed_dictionaries({"size": small}), st.fixed_dictionaries({"where": small})
    )
    inputs = st.builds(
        lambda items, kind, fixed, given_default, given_bounds: ast.InputDecl(
            items, kind, fixed, bounds=given_bounds, **given_default
        ),
        _several(item, 1), _perhaps(_kinds()), st.booleans(), default, _perhaps(bounds),
    )  # fmt: skip
    params = st.builds(
        lambda items, integer, learnable, given: ast.ParamDecl(items, integer, learnable=learnable, **given),
        _several(st.tuples(item, small), 1), st.booleans(), st.booleans(), domain,
    )  # fmt: skip
    return st.one_of(
        inputs,
        params,
        st.builds(ast.BatchDecl, _several(axes(), 1)),
        st.builds(lambda axis, given: ast.AxisDecl(axis, **given), axes(), size),
    )


@cache
def _statements() -> st.SearchStrategy[ast.Statement]:
    parameter = st.builds(ast.Parameter, names(), _perhaps(axes()), _perhaps(_kinds()))
    return st.one_of(
        st.builds(ast.Assign, names(), expressions()),
        st.builds(ast.Def, names(), _several(axes()), _several(parameter), expressions()),
    )


@cache
def loss_defs() -> st.SearchStrategy[ast.LossDef]:
    """Whole files."""
    text = _TEXT.map(ast.Text)
    doc = st.text(max_size=30).filter(lambda t: '"""' not in t and not t.endswith('"')).map(ast.Text)
    condition = st.builds(ast.Condition, names(), expressions(3), st.booleans())
    binding = st.tuples(names().map(ast.Name), expressions(3))
    return st.builds(
        ast.LossDef,
        kind=st.sampled_from(["loss", "map"]),
        name=names(),
        aliases=_several(names(), 0, 2),
        doc=_perhaps(doc),
        cites=_several(text, 0, 2),
        tags=_several(names(), 0, 2),
        decls=_several(_declarations(), 0, 2),
        body=_several(_statements(), 0, 2),
        outputs=_several(st.builds(ast.Output, _several(names().map(ast.Name), 1)), 0, 1),
        result=st.builds(ast.Argument, expressions(), _perhaps(expressions(3)), _perhaps(expressions(3))),
        claims=_several(st.builds(ast.Claim, expressions(6), _several(condition, 0, 2)), 0, 1),
        examples=_several(st.builds(ast.Example, _several(binding, 1, 2), expressions(3)), 0, 1),
    )

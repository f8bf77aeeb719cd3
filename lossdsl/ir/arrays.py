"""The Graph's operations beyond pointwise ones, on full-rank arrays: one dimension an axis, of size 1 where a value
does not vary. Dimensions are given by position. What both interpreters (Graph and KernelProgram) compute with.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lossdsl.ir.arithmetic import Arithmetic, Array, Formulas, Operand, call, is_real, scalar_array
from lossdsl.registry import Registry
from lossdsl.source.diagnostic import InternalError


def extended(x: Array, dims: Sequence[int], sizes: Sequence[int]) -> Array:
    """x repeated to its full size along some dimensions."""
    shape = list(x.shape)
    for d in dims:
        shape[d] = sizes[d]
    return spread(x, tuple(shape))


def spread(x: Array, shape: tuple[int, ...]) -> Array:
    """x broadcast to a shape; itself where it has that one already, which is most of the time and costs numpy most."""
    return x if x.shape == shape else np.broadcast_to(x, shape)


def reduce(
    arithmetic: Arithmetic,
    registry: Registry,
    name: str,
    x: Array,
    dims: tuple[int, ...],
    mask: Array | None,
    sizes: Sequence[int],
) -> tuple[Array, ...]:
    """The results of a reduction over some dimensions, which stay with size 1; where the mask is false x is not read.

    `logsumexp` gives one result; the pair (m, r) of a KernelProgram is `logsumexp_parts`.
    """
    if mask is None and name in ("sum", "prod") and x.dtype.kind != "b":
        whole = extended(x, dims, sizes)
        result = (np.sum if name == "sum" else np.prod)(whole, axis=dims, keepdims=True)
        return (arithmetic.real(result) if is_real(x) else np.asarray(result),)
    keep = np.ones((1,) * x.ndim, dtype=bool) if mask is None else mask.astype(bool)
    shape = np.broadcast_shapes(x.shape, keep.shape)
    keep = extended(spread(keep, shape), dims, sizes)
    x = extended(spread(x, shape), dims, sizes)
    if name == "count":
        return (keep.sum(axis=dims, keepdims=True, dtype=np.int64),)
    if x.dtype.kind == "b" and name not in ("any", "all"):
        x = x.astype(np.int64)
    if name in ("max", "min"):
        return (_extreme(arithmetic, name, x, dims, keep),)
    if name == "ties":
        m = _extreme(arithmetic, "max", x, dims, keep)
        return m, (keep & (x == m)).sum(axis=dims, keepdims=True, dtype=np.int64)
    if name in ("sum", "prod"):
        total = np.where(keep, x, 0 if name == "sum" else 1)
        result = (np.sum if name == "sum" else np.prod)(total, axis=dims, keepdims=True)
        return (arithmetic.real(result) if is_real(x) else np.asarray(result),)
    if name == "argmax":
        return (_argmax(arithmetic, x, dims, keep),)
    if name == "logsumexp":
        m, r = logsumexp_parts(arithmetic, x, dims, keep)
        return (m + arithmetic.own["log1p"](r),)
    if name in ("any", "all"):
        fold = np.any if name == "any" else np.all
        return (fold(np.where(keep, x.astype(bool), name == "all"), axis=dims, keepdims=True),)
    return _folded(arithmetic, registry, name, x, dims, keep)


def _extreme(arithmetic: Arithmetic, name: str, x: Array, dims: tuple[int, ...], keep: Array) -> Array:
    neutral = float("-inf") if name == "max" else float("inf")
    whole = arithmetic.real(np.where(keep, arithmetic.real(x), arithmetic.constant(neutral)))
    function = np.max if name == "max" else np.min
    found = function(whole, axis=dims, keepdims=True, initial=arithmetic.constant(neutral))
    if whole.dtype == object:  # in which numpy loses a NaN
        found = np.where(np.any(whole != whole, axis=dims, keepdims=True), whole.sum(axis=dims, keepdims=True), found)
    return arithmetic.real(found)


def _argmax(arithmetic: Arithmetic, x: Array, dims: tuple[int, ...], keep: Array) -> Array:
    """The first index of the largest entry that the mask leaves; 0 over nothing (where the language has no value)."""
    m = _extreme(arithmetic, "max", x, dims, keep)
    hit = keep & (arithmetic.real(x) == m)
    if hit.shape[dims[0]] == 0:
        return np.zeros([1 if d in dims else n for d, n in enumerate(hit.shape)], dtype=np.int64)
    return np.asarray(np.argmax(hit, axis=dims[0], keepdims=True))


def logsumexp_parts(arithmetic: Arithmetic, x: Array, dims: tuple[int, ...], keep: Array) -> tuple[Array, Array]:
    """(m, r) with m the maximum, 0 where that is -inf, and r = Σ exp(x - m) less the term of the first maximum; r = -1
    over nothing or only -inf. So logsumexp is m + log1p(r)."""
    x = arithmetic.real(x)
    m = _extreme(arithmetic, "max", x, dims, keep)
    nothing = m == arithmetic.constant(float("-inf"))
    m = arithmetic.real(np.where(nothing, 0, m))
    first = _first(keep & (x == m), dims)
    terms = arithmetic.own["exp"](np.where(keep & ~first, x - m, arithmetic.constant(float("-inf"))))
    r = arithmetic.real(np.sum(terms, axis=dims, keepdims=True))
    return m, arithmetic.real(np.where(nothing, -1, r))


def _first(hit: Array, dims: tuple[int, ...]) -> Array:
    """Only the first true entry along dims, in row-major order."""
    flat, back = _flattened(hit, dims)
    return back(flat & (np.cumsum(flat, axis=-1) == 1))


def _flattened(x: Array, dims: tuple[int, ...]) -> tuple[Array, Callable[[Array], Array]]:
    """x with dims moved behind the others and flattened into one, and the function that undoes it."""
    moved = np.moveaxis(x, dims, range(-len(dims), 0))
    shape = moved.shape
    kept = x.ndim - len(dims)
    flat = moved.reshape(*shape[:kept], int(np.prod(shape[kept:])))
    return flat, lambda y: np.moveaxis(y.reshape(shape), range(-len(dims), 0), dims)


def _folded(
    arithmetic: Arithmetic, registry: Registry, name: str, x: Array, dims: tuple[int, ...], keep: Array
) -> tuple[Array, ...]:
    """A reduction by its record: init, then update entry by entry."""
    record = registry.reductions.get(name)
    if record is None:
        raise InternalError(f"no reduction is called {name!r}")
    f = Formulas(arithmetic, registry)
    flat, mask = _flattened(x, dims)[0], _flattened(keep, dims)[0]
    state = [np.broadcast_to(scalar_array(arithmetic, s), flat.shape[:-1]) for s in record.init]
    for i in range(flat.shape[-1]):
        new = record.update(f, tuple(Operand(f, s) for s in state), Operand(f, flat[..., i]))
        state = [
            call(arithmetic, registry, "select", [mask[..., i], f.array(n), s]) for n, s in zip(new, state, strict=True)
        ]
    results = record.finish(f, tuple(Operand(f, s) for s in state))
    kept = [1 if d in dims else n for d, n in enumerate(x.shape)]
    return tuple(np.broadcast_to(f.array(r), flat.shape[:-1]).reshape(kept) for r in results)


def pick(x: Array, indices: dict[int, Array]) -> Array:
    """x with the index of some dimensions replaced, simultaneously. InternalError where one is outside its axis."""
    where: list[Array] = []
    for d, n in enumerate(x.shape):
        if d in indices:
            i = indices[d].astype(np.int64)
            if i.size and (i.min() < 0 or i.max() >= n):
                raise InternalError(f"a pick reads index {i.min() if i.min() < 0 else i.max()} of an axis of {n}")
            where.append(i)
        else:
            where.append(np.arange(n).reshape([n if e == d else 1 for e in range(x.ndim)]))
    return np.asarray(x[tuple(where)])


def scatter(x: Array, index: Array, dim: int, dims: tuple[int, ...], sizes: Sequence[int]) -> Array:
    """Along dim, at a: the sum over dims of x where index == a."""
    hit = index.astype(np.int64)[..., None] == np.arange(sizes[dim])
    shape = np.broadcast_shapes(x.shape, index.shape)
    full = extended(np.broadcast_to(x, shape), dims, sizes)[..., None]
    summed = np.sum(np.where(hit, full, 0), axis=dims, keepdims=True)
    if summed.shape[dim] != 1:
        raise InternalError("a scatter's values vary along the axis that it makes")
    return np.moveaxis(np.squeeze(summed, axis=dim), -1, dim)


def cumsum(arithmetic: Arithmetic, x: Array, dim: int, mask: Array | None, reverse: bool, size: int) -> Array:
    """The inclusive running sum along dim, in index order or from the end; masked entries add nothing."""
    x = np.where(mask.astype(bool), x, 0) if mask is not None else x
    if x.dtype.kind == "b":
        x = x.astype(np.int64)
    shape = list(x.shape)
    shape[dim] = size
    x = np.broadcast_to(x, shape)
    if reverse:
        x = np.flip(x, dim)
    total = np.cumsum(x, axis=dim)
    total = np.flip(total, dim) if reverse else total
    return arithmetic.real(total) if is_real(x) else np.asarray(total)


def order(
    key: Array, source: int, target: int, descending: bool, mask: Array | None, source_size: int, target_size: int
) -> Array:
    """The indices along source in the order of key, laid along target. Ties by index; masked entries last; places that
    no entry takes are 0."""
    keep = np.ones((1,) * key.ndim, dtype=bool) if mask is None else mask.astype(bool)
    shape = list(np.broadcast_shapes(key.shape, keep.shape))
    shape[source] = source_size
    if shape[target] != 1:
        raise InternalError("an order's key varies along the axis that it makes")
    keys = np.moveaxis(np.broadcast_to(key, shape), source, -1).reshape(-1, source_size)
    keeps = np.moveaxis(np.broadcast_to(keep, shape), source, -1).reshape(-1, source_size)
    result = np.zeros((len(keys), target_size), dtype=np.int64)
    n = min(source_size, target_size)
    for row in range(len(keys)):
        values, kept = keys[row], keeps[row]
        ordered = sorted(
            range(source_size),
            key=lambda i: (not kept[i], (-values[i] if descending else values[i]) if kept[i] else 0),
        )
        result[row, :n] = ordered[:n]
    rest = [s for d, s in enumerate(shape) if d != source]
    laid = np.expand_dims(result.reshape(*rest, target_size), source)
    return np.moveaxis(np.squeeze(laid, axis=target), -1, target)


def contract(arithmetic: Arithmetic, xs: Sequence[Array], dims: tuple[int, ...], sizes: Sequence[int]) -> Array:
    """The sum over dims of the product."""
    product = arithmetic.real(xs[0])
    for x in xs[1:]:
        product = product * arithmetic.real(x)
    return arithmetic.real(np.sum(extended(product, dims, sizes), axis=dims, keepdims=True))


def matrixwise(
    x: Array, rows: int, columns: int, sizes: Sequence[int], function: Callable[[Array], Array], kind: str
) -> Array:
    """A function of the matrices that lie along two dimensions. kind: "scalar", "matrix" or "vector" (along rows)."""
    moved = np.moveaxis(extended(x, (rows, columns), sizes), (rows, columns), (-2, -1))
    result = function(moved)
    if kind == "scalar":
        return np.moveaxis(result[..., None, None], (-2, -1), (rows, columns))
    if kind == "vector":
        return np.moveaxis(result[..., None], (-2, -1), (rows, columns))
    return np.moveaxis(result, (-2, -1), (rows, columns))


def by_matrix(arithmetic: Arithmetic, name: str) -> Callable[..., Array]:
    """logdet, inverse or eigvals of matrices in the last two dimensions, solve with a vector in a second argument."""
    if not arithmetic.exact:
        functions: dict[str, Callable[..., Array]] = {
            "logdet": lambda m: np.linalg.slogdet(m)[1],
            "inverse": np.linalg.inv,
            "eigvals": np.linalg.eigvalsh,
            "eigvecs": lambda m: np.linalg.eigh(m)[1],
        }
        return functions[name]
    return lambda m: _multiprecision(arithmetic, name, m)


def _multiprecision(arithmetic: Arithmetic, name: str, m: Array) -> Array:
    mp: Any = arithmetic.constant(0.0).context
    n = m.shape[-1]
    flat = m.reshape(-1, n, n)
    results = []
    for matrix in flat:
        if any(x != x or abs(x) == mp.inf for x in matrix.flat):  # as numpy has it; mpmath looks for a pivot in vain
            results.append(list(np.full({"logdet": 1, "eigvals": n}.get(name, n * n), mp.nan)))
            continue
        a = mp.matrix([list(row) for row in matrix])
        if name == "logdet":
            results.append([mp.log(abs(mp.zero if _empty_column(a) else mp.det(a)))])
        elif name == "inverse":
            if _empty_column(a):
                raise ZeroDivisionError("the matrix is singular")
            results.append(list(a**-1))
        else:
            values, vectors = mp.eigsy(a)
            results.append(list(values if name == "eigvals" else vectors))
    shape = {"logdet": (), "eigvals": (n,)}.get(name, (n, n))
    return np.array(results, dtype=object).reshape(*m.shape[:-2], *shape)


def _empty_column(a: Any) -> bool:
    """Whether elimination comes to a column of zeros, in which mpmath looks for a pivot in vain."""
    try:
        a.ctx.LU_decomp(a, overwrite=False)
    except ZeroDivisionError:
        return False  # singular in its own words
    except TypeError:
        return True
    return False


def island(
    arithmetic: Arithmetic,
    op: str,
    attrs: Sequence[Any],
    args: Sequence[Array],
    axes: Sequence[str],
    sizes: Sequence[int],
) -> Array:
    """An operation on whole arrays, with the attributes that `ir/graph.py` gives it; `axes` names the dimensions."""
    dims = [axes.index(a) for a in attrs if isinstance(a, str)]
    match op:
        case "cumsum":
            mask = args[1] if len(args) > 1 else None
            return cumsum(arithmetic, args[0], dims[0], mask, len(attrs) > 1 and bool(attrs[1]), sizes[dims[0]])
        case "order":
            mask = args[1] if len(args) > 1 else None
            return order(args[0], dims[0], dims[1], bool(attrs[2]), mask, sizes[dims[0]], sizes[dims[1]])
        case "logdet" | "inverse" | "eigvals" | "eigvecs" | "solve":
            return _linear(arithmetic, op, args, dims, sizes)
    raise InternalError(f"the interpreter has no operation {op!r}")


def _linear(arithmetic: Arithmetic, op: str, args: Sequence[Array], dims: Sequence[int], sizes: Sequence[int]) -> Array:
    rows, columns = dims[:2]
    m = arithmetic.real(args[0])
    if op == "logdet":
        return matrixwise(m, rows, columns, sizes, by_matrix(arithmetic, "logdet"), "scalar")
    if op == "inverse":
        return matrixwise(m, rows, columns, sizes, by_matrix(arithmetic, "inverse"), "matrix")
    if op == "eigvals":
        values = matrixwise(m, rows, columns, sizes, by_matrix(arithmetic, "eigvals"), "vector")
        return np.swapaxes(values, rows, dims[2])
    if op == "eigvecs":
        vectors = matrixwise(m, rows, columns, sizes, by_matrix(arithmetic, "eigvecs"), "matrix")
        return np.swapaxes(vectors, columns, dims[2])
    inverse = matrixwise(m, rows, columns, sizes, by_matrix(arithmetic, "inverse"), "matrix")
    # x[A'] = Σ over A of inverse[A', A]·b[A]; the inverse's rows lie along A, so it is read transposed
    return contract(arithmetic, (np.swapaxes(inverse, rows, columns), args[1]), (rows,), sizes)

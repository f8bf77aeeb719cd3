"""Access to rows and reductions of them, for kernels: part of the run time of generated modules."""

from __future__ import annotations

import triton
import triton.language as tl

from lossdsl.backends.triton.device import exp_

# --- access -----------------------------------------------------------------------------------------------------------


@triton.jit
def scalar_(x, REAL: tl.constexpr):
    """A parameter, given as a number or as the address of one."""
    if x.dtype.is_ptr():
        x = tl.load(x)
    return x.to(REAL) + tl.zeros((1, 1), REAL)  # a tile: the interpreter mistypes comparisons of what is none


@triton.jit
def narrow_(i):
    """An index in 32 bits; -1 if it has more."""
    return tl.where((i > -2147483648) & (i < 2147483647), i, -1).to(tl.int32)


@triton.jit
def load_(p, cols, n, there, U: tl.constexpr, EVEN: tl.constexpr):
    """A tile of rows of n: in runs of U entries where memory allows, the last n mod U entries by themselves."""
    body = (n // U) * U
    x = tl.load(p, mask=there & (cols < body), other=0)
    if not EVEN:
        rest = tl.load(p, mask=there & (cols >= body) & (cols < n), other=0)
        x = tl.where(cols < body, x, rest)
    return x


@triton.jit
def store_(p, x, cols, n, live, U: tl.constexpr, EVEN: tl.constexpr):
    """The same for what is written."""
    body = (n // U) * U
    tl.store(p, x, mask=live & (cols < body))
    if not EVEN:
        tl.store(p, x, mask=live & (cols >= body) & (cols < n))


# --- reductions of a row: from entries or from the states of lanes [R, B] to [R, 1] -----------------------------------


@triton.jit
def logsumexp_row_(x):
    """(m, r, e) of a row: its maximum (0 if that is -inf), the sum of e^(x - m) less one term of a maximum (-1 over
    nothing), and e^(x - m)."""
    top = tl.max(x, 1, keep_dims=True)
    m = tl.where(top == float("-inf"), 0.0, top)
    e = exp_(x - m)
    same = x == top
    r = tl.sum(tl.where(same, 0.0, e), 1, keep_dims=True)
    ties = tl.sum(same.to(tl.int32), 1, keep_dims=True)
    return m, tl.where(top == float("-inf"), r * 0.0 - 1.0, r + (ties - 1).to(x.dtype)), e


@triton.jit
def logsumexp_add_(m, r, x):
    """A lane's state with one entry more; (-inf, -1) is that of nothing."""
    up = x > m
    e = exp_(-tl.abs(tl.where(x == m, 0.0, x - m)))  # of two infinities 1
    r = tl.where(up, (r + 1.0) * e, r + tl.where(x == float("-inf"), 0.0, e))
    return tl.where(up, x, m), r


@triton.jit
def logsumexp_lanes_(m, r):
    """(m, r) of a row from those of its lanes."""
    top = tl.max(m, 1, keep_dims=True)
    base = tl.where(top == float("-inf"), 0.0, top)
    same = m == top
    total = tl.sum(tl.where(same, r, (r + 1.0) * exp_(m - base)), 1, keep_dims=True)
    ties = tl.sum(same.to(tl.int32), 1, keep_dims=True)
    r = tl.where(top == float("-inf"), total * 0.0 - 1.0, total + (ties - 1).to(r.dtype))
    return base, r


@triton.jit
def max_lanes_(x):
    """The largest of a row; NaN if one is."""
    bad = tl.sum((x != x).to(tl.int32), 1, keep_dims=True)
    return tl.where(bad > 0, float("nan"), tl.max(x, 1, keep_dims=True))


@triton.jit
def min_lanes_(x):
    """The smallest of a row; NaN if one is."""
    bad = tl.sum((x != x).to(tl.int32), 1, keep_dims=True)
    return tl.where(bad > 0, float("nan"), tl.min(x, 1, keep_dims=True))


@triton.jit
def _product(x, y):
    return x * y


@triton.jit
def prod_lanes_(x):
    """The product of a row."""
    return tl.reduce(x, 1, _product, keep_dims=True)


@triton.jit
def argmax_add_(v, at, x, cols):
    """A lane's largest entry and its place, with one entry more; a NaN is the largest."""
    up = (x > v) | ((x != x) & (v == v))
    return tl.where(up, x, v), tl.where(up, cols, at)


@triton.jit
def argmax_lanes_(v, at):
    """The first place of a row's maximum, of a NaN where there is one."""
    top = max_lanes_(v)
    first = tl.min(tl.where((v == top) | (v != v), at, 2147483647), 1, keep_dims=True)
    return tl.where(first == 2147483647, 0, first)


@triton.jit
def ties_add_(v, n, x, ok):
    """A lane's largest entry and how often it was met, with one entry more."""
    up = ok & ((x > v) | (n == 0))
    return tl.where(up, x, v), tl.where(up, 1, n + (ok & (x == v)).to(tl.int32))


@triton.jit
def ties_lanes_(v, n):
    """The maximum of a row and how many entries attain it."""
    top = max_lanes_(v)
    return top, tl.sum(tl.where(v == top, n, 0), 1, keep_dims=True)


# --- the whole of a row -----------------------------------------------------------------------------------------------


@triton.jit
def at_(x, i, n):
    """Entries of rows [R, B] at places [R, K] of n; the first one for a place outside."""
    inside = (i >= 0) & (i < n)
    return tl.gather(x, tl.where(inside, i, 0).to(tl.int32), 1)


@triton.jit
def order_(key, present, there, DOWN: tl.constexpr):
    """The places of a row's keys from the least (DOWN: the largest) on, of equal ones the first first; what isn't
    present behind, and at the end what isn't there. A NaN counts as the largest.

    What is sorted is one whole number an entry, of the key's bits and its place: sorts need not be stable then. Of 64
    bits the lower half is sorted first.
    """
    places = tl.arange(0, key.shape[1])[None, :].to(tl.int64) + tl.zeros(key.shape, tl.int64)
    group = tl.where(there, tl.where(present, 0, 1), 2).to(tl.int64) << 56
    plain = tl.where(key == 0.0, 0.0, key)  # -0 is 0
    plain = tl.where(key != key, float("nan"), plain)
    if key.dtype == tl.float64:
        bits = plain.to(tl.int64, bitcast=True)
        bits = tl.where(bits < 0, bits ^ 0x7FFFFFFFFFFFFFFF, bits)
        if DOWN:
            bits = ~bits
        low = bits & 0xFFFFFFFF
        first = tl.sort((low << 24) | places, 1) & 0xFFFFFF
        high = ((bits >> 32) + 2147483648) << 24
        high = tl.gather(high | group, first.to(tl.int32), 1)
        second = tl.sort(high | places, 1) & 0xFFFFFF
        return tl.gather(first, second.to(tl.int32), 1)
    else:
        bits = plain.to(tl.int32, bitcast=True)
        bits = tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
        if DOWN:
            bits = ~bits
        high = (bits.to(tl.int64) + 2147483648) << 24
        return tl.sort(high | group | places, 1) & 0xFFFFFF


@triton.jit
def sums_so_far_(x, y, n, inner, BACKWARDS: tl.constexpr, B: tl.constexpr):
    """Of one row of n, whose entries lie `inner` apart: in blocks, with what is before them carried along."""
    row = tl.program_id(0).to(tl.int64)
    start = row // inner * inner * n + row % inner
    before = tl.zeros((1,), x.dtype.element_ty)
    for at in range(0, n, B):
        k = at + tl.arange(0, B)
        place = n - 1 - k if BACKWARDS else k
        here = start + place.to(tl.int64) * inner
        v = tl.load(x + here, mask=k < n, other=0)
        tl.store(y + here, tl.cumsum(v, 0) + before, mask=k < n)
        before += tl.sum(v, 0)

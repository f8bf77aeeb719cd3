"""Elements, states of reductions and memory in C++: part of every kernel."""

SUPPORT = r"""
// Tensors' elements as the arithmetic's, and back with one rounding.
struct bf16 { unsigned short u; };
struct f16 { unsigned short u; };
static INLINE unsigned ubits(float x) { return (unsigned)bits(x); }
static INLINE float as_float(float x) { return x; }
static INLINE double as_float(double x) { return x; }
static INLINE double as_float(long x) { return (double)x; }
static INLINE float as_float(bf16 x) { return from_bits((int)((unsigned)x.u << 16)); }
static INLINE float as_float(f16 x) {
  unsigned s = (unsigned)(x.u & 0x8000) << 16, e = (unsigned)(x.u & 0x7fff) << 13;
  float v = from_bits((int)e) * 0x1p112f;
  unsigned w = e >= 0x0f800000u ? e | 0x7f800000u : ubits(v);
  return from_bits((int)(w | s));
}
template <class R> static INLINE void put(R x, float *p) { *p = (float)x; }
template <class R> static INLINE void put(R x, double *p) { *p = (double)x; }
template <class R> static INLINE void put(R y, bf16 *p) {
  float x = (float)y;
  unsigned u = ubits(x), r = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  p->u = (unsigned short)(x != x ? 0x7fc0u : r);
}
template <class R> static INLINE void put(R y, f16 *p) {
  float x = (float)y;
  unsigned u = ubits(x), s = (u >> 16) & 0x8000u;
  u &= 0x7fffffffu;
  unsigned normal = (u + 0xfffu + ((u >> 13) & 1u) - (112u << 23)) >> 13;
  unsigned small = ubits(from_bits((int)u) + 0.5f) - ubits(0.5f);
  unsigned h = u < 0x38800000u ? small : normal;
  h = u >= 0x477ff000u ? 0x7c00u : h;
  h = u > 0x7f800000u ? 0x7e00u : h;
  p->u = (unsigned short)(h | s);
}
template <class R> static INLINE void put(R x, long *p) { *p = (long)x; }
template <class R> static INLINE void put(R x, unsigned char *p) { *p = x != 0; }

// States of reductions. Sums of floats are carried in double; merge is associative, and called in a fixed order.
template <class R> struct Sum {
  double v = 0;
  void add(R x) { v += (double)x; }
  void merge(const Sum &o) { v += o.v; }
  R result() const { return (R)v; }
};
template <> struct Sum<long> {
  long v = 0;
  void add(long x) { v += x; }
  void merge(const Sum &o) { v += o.v; }
  long result() const { return v; }
};
template <class R> struct Prod {
  double v = 1;
  void add(R x) { v *= (double)x; }
  void merge(const Prod &o) { v *= o.v; }
  R result() const { return (R)v; }
};
template <class R> struct Max {
  R v = std::numeric_limits<R>::has_infinity ? -std::numeric_limits<R>::infinity() : std::numeric_limits<R>::lowest();
  void add(R x) { v = maximum(v, x); }
  void merge(const Max &o) { add(o.v); }
  R result() const { return v; }
};
template <class R> struct Min {
  R v = std::numeric_limits<R>::has_infinity ? std::numeric_limits<R>::infinity() : std::numeric_limits<R>::max();
  void add(R x) { v = minimum(v, x); }
  void merge(const Min &o) { add(o.v); }
  R result() const { return v; }
};
template <class R> struct Ties {
  R v = -lim<R>::inf;
  long n = 0;
  void add(R x) { merge(Ties{x, 1}); }
  void merge(const Ties &o) {
    n = v > o.v ? n : o.v > v ? o.n : n + o.n;
    v = maximum(v, o.v);
  }
};
template <class R> struct Argmax {
  R v = -lim<R>::inf;
  long at = std::numeric_limits<long>::max();
  void add(R x, long i) { merge(Argmax{x, i}); }
  void merge(const Argmax &o) {
    at = o.v > v ? o.at : o.v == v && o.at < at ? o.at : at;
    v = maximum(v, o.v);
  }
  long result() const { return at == std::numeric_limits<long>::max() ? 0 : at; }
};
// log-sum-exp: the maximum m and the sum of exp(x - m) less the term of one maximum, so that no digit of it is lost
// next to 1. A range in which a new maximum appears hands the old range over as an ordinary term.
template <class R> struct Lse {
  R m = -lim<R>::inf;
  double rest = -1;
  bool awaited = false;  // whether the maximum is known, and has not been added
  void add(R x) {
    if (x > m) merge(Lse{x, 0});
    else if (awaited && x == m) awaited = false;
    else if (!(x == -lim<R>::inf)) rest += (double)exp(x - m);
  }
  void see(R x) {  // of all that is added then: each term is relative to the maximum, as it is elsewhere
    if (x > m) *this = Lse{x, 0, true};
  }
  void merge(const Lse &o) {
    if (o.m > m) {
      rest = (rest + 1) * exp((double)m - (double)o.m) + o.rest;
      m = o.m;
    } else if (o.m == m && m != -lim<R>::inf) {
      rest += o.rest + 1;
    } else if (o.m > -lim<R>::inf || o.rest != -1) {
      rest += o.m == -lim<R>::inf ? o.rest + 1 : (o.rest + 1) * exp((double)o.m - (double)m);
    }
  }
  // a block whose sum s and number n of terms at the top are relative to most = max(m, the block's)
  void block(R most, double s, long n) {
    if (m == -lim<R>::inf) {  // the first, mostly: no exponential of what underflows, which takes long
      rest = s + (n - 1);
      m = most;
    } else if (most > m) {
      rest = (rest + 1) * exp((double)m - (double)most) + (s + (n - 1));
      m = most;
    } else {
      rest += s + n;
    }
  }
  R top() const { return m == -lim<R>::inf ? R(0) : m; }
  R others() const { return (R)rest; }
};
// The same with the sum of exp(x - m)·(x - m), too, whose terms are all of one sign and stay so where m grows
template <class R> struct Tilted : Lse<R> {
  double tilt = 0;
  void block(R most, double s, long n, double t) {
    const R m = this->m;
    if (most > m && m > -lim<R>::inf) {
      const double d = (double)most - (double)m;
      tilt = (tilt - d * (this->rest + 1)) * exp(-d) + t;
    } else {
      tilt += t;
    }
    Lse<R>::block(most, s, n);
  }
};

#pragma omp declare reduction(max_r : float, double, long : omp_out = maximum(omp_out, omp_in)) \
    initializer(omp_priv = omp_orig)
#pragma omp declare reduction(min_r : float, double, long : omp_out = minimum(omp_out, omp_in)) \
    initializer(omp_priv = omp_orig)
// A whole number in 32 bits: one that doesn't fit stays on its side of every index
static INLINE int narrow(long x) {
  return x > 2147483647L ? 2147483647 : x < -2147483648L ? -2147483647 - 1 : (int)x;
}

// A row's last strip, where it isn't whole: copied, so that a loop may go on beyond the row's end
static INLINE long padded(long n) { return (n + 15) & -16; }
template <class T> static INLINE void tail(T *to, const T *from, int n) {
  #pragma omp simd
  for (int j = 0; j < 16; ++j) to[j] = from[j < n ? j : n - 1];
}
template <class T> static INLINE void untail(T *to, const T *from, int n) {
  for (int j = 0; j < n; ++j) to[j] = from[j];
}

// Ask for n elements, which need not be there
template <class T> static INLINE void fetch(const T *p, int n) {
  for (unsigned i = 0; i < n * sizeof(T); i += 64) __builtin_prefetch((const char *)p + i);
}

// Tiles of rows. Along: element c of row l at p[l * ld + c]; in lanes: at p[c * ld + l]. What doesn't lie so is copied.
typedef float V8 __attribute__((vector_size(32)));
typedef int I8 __attribute__((vector_size(32)));
static INLINE void transpose8(V8 *r) {
  V8 a[8], b[8];
  for (int i = 0; i < 8; i += 2) {
    a[i] = __builtin_shuffle(r[i], r[i + 1], I8{0, 8, 1, 9, 4, 12, 5, 13});
    a[i + 1] = __builtin_shuffle(r[i], r[i + 1], I8{2, 10, 3, 11, 6, 14, 7, 15});
  }
  for (int i = 0; i < 8; i += 4)
    for (int j = 0; j < 2; ++j) {
      b[i + 2 * j] = __builtin_shuffle(a[i + j], a[i + 2 + j], I8{0, 1, 8, 9, 4, 5, 12, 13});
      b[i + 2 * j + 1] = __builtin_shuffle(a[i + j], a[i + 2 + j], I8{2, 3, 10, 11, 6, 7, 14, 15});
    }
  for (int i = 0; i < 4; ++i) {
    r[i] = __builtin_shuffle(b[i], b[i + 4], I8{0, 1, 2, 3, 8, 9, 10, 11});
    r[i + 4] = __builtin_shuffle(b[i], b[i + 4], I8{4, 5, 6, 7, 12, 13, 14, 15});
  }
}
// to[c * lt + l] = from[l * lf + c] for `n` l and `m` c; the last eight of either overlap those before
static INLINE void transpose(const float *from, long lf, float *to, long lt, long n, long m) {
  if (n < 8 || m < 8) {
    for (long l = 0; l < n; ++l)
      for (long c = 0; c < m; ++c) to[c * lt + l] = from[l * lf + c];
    return;
  }
  for (long c = 0; c < m; c += 8) {
    const long q = c + 8 <= m ? c : m - 8;
    for (long l = 0; l < n; l += 8) {
      const long s = l + 8 <= n ? l : n - 8;
      V8 r[8];
      for (int i = 0; i < 8; ++i) __builtin_memcpy(r + i, from + (s + i) * lf + q, 32);
      transpose8(r);
      for (int i = 0; i < 8; ++i) __builtin_memcpy(to + (q + i) * lt + s, r + i, 32);
    }
  }
}
template <class T> static INLINE void transpose(const T *from, long lf, T *to, long lt, long n, long m) {
  if (sizeof(T) == 4) return transpose((const float *)from, lf, (float *)to, lt, n, m);
  for (long l = 0; l < n; ++l)
    for (long c = 0; c < m; ++c) to[c * lt + l] = from[l * lf + c];
}
template <class T> struct View {
  const T *p;
  long ld;
  View(const T *from, long sr, long sc, long n, long m, bool lanes, T *copy) {
    constexpr long L = 32;
    if (lanes) {
      p = copy, ld = L;
      if (sr == 1 && n == L) {
        p = from, ld = sc;
      } else {
        if (sc == 1 && n == L) transpose(from, sr, copy, L, L, m);  // by a number that the compiler knows
        else if (sc == 1) transpose(from, sr, copy, L, n, m);
        else
          for (long c = 0; c < m; ++c)
            for (long l = 0; l < n; ++l) copy[c * L + l] = from[l * sr + c * sc];
        for (long c = 0; c < m && n < L; ++c)
          for (long l = n; l < L; ++l) copy[c * L + l] = copy[c * L + n - 1];
      }
    } else {
      p = from, ld = sr;
      if (sc != 1) {
        p = copy, ld = m;
        for (long l = 0; l < n; ++l)
          for (long c = 0; c < m; ++c) copy[l * m + c] = from[l * sr + c * sc];
      }
    }
  }
};
template <class T> struct OutView {
  T *p, *to;
  long ld, sr, sc, n, m;
  bool lanes;
  OutView(T *to, long sr, long sc, long n, long m, bool lanes, T *copy)
      : to(to), sr(sr), sc(sc), n(n), m(m), lanes(lanes) {
    constexpr long L = 32;
    const bool here = lanes ? sr == 1 && n == L : sc == 1;
    p = here ? to : copy;
    ld = here ? (lanes ? sc : sr) : (lanes ? L : m);
  }
  void store() const {
    if (p == to) return;
    if (lanes && sc == 1 && n == 32) return transpose((const T *)p, 32, to, sr, m, 32);
    if (lanes && sc == 1) return transpose((const T *)p, ld, to, sr, m, n);
    for (long l = 0; l < n; ++l)
      for (long c = 0; c < m; ++c) to[l * sr + c * sc] = lanes ? p[c * ld + l] : p[l * ld + c];
  }
};

// What a call can't do, which `run` returns: memory that isn't there, as its bytes; a row that is too long, as
// -1 - its entries. Nothing is thrown out of a parallel region, which would end the process, nor out of `run`.
struct Refusal { long status; };
struct Status {
  std::atomic<long> found{0};
  operator bool() const { return found.load(std::memory_order_relaxed) != 0; }
  void note(long status) { found.store(status, std::memory_order_relaxed); }
};
static INLINE long attempt(void (*work)(const long *, Status &), const long *a) {
  Status status;
  try { work(a, status); } catch (const Refusal &x) { status.note(x.status); }
  return status.found;
}
// The number of elements of an array; no product wraps around, so that what is too large is asked for and refused
static INLINE long room(long n) { return n; }
template <class... More> static INLINE long room(long n, long m, More... more) {
  long found;
  return room(__builtin_mul_overflow(n, m, &found) ? std::numeric_limits<long>::max() : found, more...);
}
// Loops over a row count in 32 bits, with room for a strip, a group of them and what is fetched ahead
static INLINE void countable(long n) { if (n > 2147479552L) throw Refusal{-1 - n}; }

// Memory of one call, freed at its end; the first of it is the stack's, which is all that a small call needs
struct Arena {
  alignas(64) char own[16384];
  size_t used = 0;
  std::vector<void *> held;
  template <class T> T *raw(long n) {
    const long most = std::numeric_limits<long>::max() / (long)sizeof(T) - 256;
    const size_t size = ((n < most ? n : most) * sizeof(T) + 63) / 64 * 64 + 128;  // a row's last strip may read beyond
    if (size <= sizeof(own) - used) {
      used += size;
      return (T *)(own + used - size);
    }
    void *p = nullptr;
    try {
      held.reserve(held.size() + 1);
      p = std::aligned_alloc(64, size + 64);
    } catch (const std::bad_alloc &) {}  // told below
    if (!p) throw Refusal{(long)size};
    held.push_back(p);
    return (T *)p;
  }
  template <class T> T *raw(long n, Status &status) {  // where a thread must go on to the loop that all share
    try { return raw<T>(n); } catch (const Refusal &x) { status.note(x.status); }
    return nullptr;
  }
  template <class T> T *get(long n) {
    T *q = raw<T>(n);
    for (long i = 0; i < n; ++i) new (q + i) T();
    return q;
  }
  ~Arena() { for (void *p : held) std::free(p); }
};
// Rows are split into blocks by their number alone, so that no result depends on the number of threads.
static INLINE long block_count(long rows, long state) {
  long most = state > 0 ? (1L << 20) / state : 64;
  most = most > 64 ? 64 : most < 1 ? 1 : most;
  return rows < most ? (rows < 1 ? 1 : rows) : most;
}
"""

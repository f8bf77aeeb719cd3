"""The other primitives in C++: part of every kernel."""

SPECIAL = r"""
// The other primitives, in terms of math.hpp; those that losses seldom use are the C library's.
template <class R> static INLINE R absolute(R x) { return x < 0 ? -x : x == 0 ? R(0) : x; }
template <class R> static INLINE R minimum(R x, R y) { return (y < x) | (y != y) ? y : x; }
template <class R> static INLINE R maximum(R x, R y) { return (y > x) | (y != y) ? y : x; }
template <class R> static INLINE R clip(R x, R lo, R hi) { return minimum(maximum(x, lo), hi); }
template <class R> static INLINE R relu(R x) { return maximum(x, R(0)); }
template <class R> static INLINE R sign(R x) { return x != x ? x : R((x > 0) - (x < 0)); }
template <class R> static INLINE R mulz(R x, R y) { return (x == 0) | (y == 0) ? R(0) : x * y; }  // 0·inf = 0
template <class R> static INLINE R modulo(R x, R y) { return x - y * std::floor(x / y); }
static INLINE long modulo(long x, long y) {
  if (y == 0) return 0;
  long r = x % y;
  return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}
template <class R> static INLINE bool isfinite(R x) { return x - x == 0; }
template <class R> static INLINE R sigmoid(R x) {
  R e = exp_neg(x > 0 ? -x : x);
  return (x >= 0 ? R(1) : e) / (R(1) + e);
}
template <class R> static INLINE R softplus(R x) { return maximum(x, R(0)) + log1p(exp_neg(x > 0 ? -x : x)); }
template <class R> static INLINE R logaddexp(R x, R y) {
  R gap = x == y ? R(0) : x > y ? y - x : x - y;  // not inf - inf
  return maximum(x, y) + log1p(exp_neg(gap));
}
template <class R> static INLINE R log1mexp(R x) {
  return x > R(-0.693147) ? log(-expm1(x)) : log1p(-exp(x));
}
template <class R> static INLINE R expsub(R x, R y) {  // exp(x) - exp(y)
  R gap = x == y ? R(0) : x > y ? y - x : x - y;
  R d = exp(maximum(x, y)) * -expm1(gap);
  return x < y ? -d : d;
}
// exp(x) - 1 - x for |x| <= 1/2: the series to the digits of the type
static INLINE float expm1mx_near(float x) {
  float q = 2.492243642934227e-05f;
  q = fma(q, x, 0.000199621762266955f);
  q = fma(q, x, 0.001388873772021196f);
  q = fma(q, x, 0.008333182071584195f);
  q = fma(q, x, 0.04166666713918055f);
  q = fma(q, x, 0.16666667139493802f);
  q = fma(q, x, 0.5f);
  return x * x * q;
}
static INLINE double expm1mx_near(double x) {
  double q = 7.647163731819816e-13;
  q = fma(q, x, 1.1470745597729725e-11);
  q = fma(q, x, 1.6059043836821613e-10);
  q = fma(q, x, 2.08767569878681e-09);
  q = fma(q, x, 2.505210838544172e-08);
  q = fma(q, x, 2.755731922398589e-07);
  q = fma(q, x, 2.7557319223985893e-06);
  q = fma(q, x, 2.48015873015873e-05);
  q = fma(q, x, 0.0001984126984126984);
  q = fma(q, x, 0.001388888888888889);
  q = fma(q, x, 0.008333333333333333);
  q = fma(q, x, 0.041666666666666664);
  q = fma(q, x, 0.16666666666666666);
  q = fma(q, x, 0.5);
  return x * x * q;
}
template <class R> static INLINE R expm1mx(R x) {  // exp(x) - 1 - x
  return absolute(x) < R(0.5) ? expm1mx_near(x) : expm1(x) - x;
}
// p·log(p/q) - p + q for p = exp(x), q = exp(y)
template <class R> static INLINE R divergence(R x, R y) {
  R gap = x == y ? R(0) : y - x, p = exp(x);
  R far = expsub(y, x) - mulz(p, gap);
  return absolute(gap) < R(0.5) ? p * expm1mx(gap) : far;
}
template <class R> static INLINE R log1pmx(R x) {  // log(1 + x) - x = 2 artanh(s) - x with s = x/(2 + x)
  R s = x / (R(2) + x), w = s * s, q = R(0.034482758620689655);
  q = fma(q, w, R(0.037037037037037035));
  q = fma(q, w, R(0.04));
  q = fma(q, w, R(0.043478260869565216));
  q = fma(q, w, R(0.047619047619047616));
  q = fma(q, w, R(0.05263157894736842));
  q = fma(q, w, R(0.058823529411764705));
  q = fma(q, w, R(0.06666666666666667));
  q = fma(q, w, R(0.07692307692307693));
  q = fma(q, w, R(0.09090909090909091));
  q = fma(q, w, R(0.1111111111111111));
  q = fma(q, w, R(0.14285714285714285));
  q = fma(q, w, R(0.2));
  q = fma(q, w, R(0.3333333333333333));
  return absolute(x) < R(0.5) ? s * (R(2) * w * q - x) : log1p(x) - x;
}
template <class R> static INLINE R tanh(R x) {
  R a = expm1(R(-2) * absolute(x)), y = -a / (R(2) + a);
  y = x == 0 ? x : y;
  return x < 0 ? -y : y;
}
// x^y by way of double, where a float's result has all its digits
static INLINE float pow(float x, float y) {
  double r = exp((double)y * log((double)absolute(x)));
  float h = y * 0.5f;
  bool whole = std::floor(y) == y, odd = whole & (std::floor(h) != h);
  r = x < 0.f ? (whole ? (odd ? -r : r) : lim<double>::nan) : r;
  r = (y == 0.f) | (x == 1.f) ? 1. : r;
  return (float)r;
}
static INLINE double pow(double x, double y) { return std::pow(x, y); }
static INLINE double polygamma_tail(double &x, int n, double &sum) {  // x moved up to 10, the terms on the way in sum
  for (sum = 0; x < 10; x += 1) sum += n == 0 ? -1 / x : n == 1 ? 1 / (x * x) : -2 / (x * x * x);
  return 1 / (x * x);
}
static INLINE double digamma_positive(double x) {
  double s, w = polygamma_tail(x, 0, s);
  return s + std::log(x) - 0.5 / x -
    w * (1. / 12 - w * (1. / 120 - w * (1. / 252 - w * (1. / 240 - w * (1. / 132 - w * (691. / 32760 - w / 12))))));
}
static INLINE double trigamma_positive(double x) {
  double s, w = polygamma_tail(x, 1, s);
  return s + 1 / x + 0.5 * w +
    w / x * (1. / 6 - w * (1. / 30 - w * (1. / 42 - w * (1. / 30 - w * (5. / 66 - w * (691. / 2730 - w * 7. / 6))))));
}
static INLINE double tetragamma_positive(double x) {
  double s, w = polygamma_tail(x, 2, s);
  return s - w - w / x - w * w * (0.5 - w * (1. / 6 - w * (1. / 6 - w * (0.3 - w * (5. / 6 - w * 691. / 210)))));
}
template <class R> static INLINE R digamma(R x) {
  double v = x, pi = 3.141592653589793;
  return (R)(v > 0 ? digamma_positive(v) : digamma_positive(1 - v) - pi / std::tan(pi * v));
}
template <class R> static INLINE R trigamma(R x) {
  double v = x, pi = 3.141592653589793, s = std::sin(pi * v);
  return (R)(v > 0 ? trigamma_positive(v) : pi * pi / (s * s) - trigamma_positive(1 - v));
}
template <class R> static INLINE R tetragamma(R x) {
  double v = x, pi = 3.141592653589793, s = std::sin(pi * v), c = std::cos(pi * v);
  return (R)(v > 0 ? tetragamma_positive(v) : tetragamma_positive(1 - v) - 2 * pi * pi * pi * c / (s * s * s));
}
static INLINE float lgamma(float x) { return (float)std::lgamma((double)x); }
static INLINE double lgamma(double x) { return std::lgamma(x); }
using std::acos;
using std::asin;
using std::atan;
using std::cos;
using std::erf;
using std::floor;
using std::sin;
using std::sqrt;
using std::tan;
template <class R> static INLINE R nearest(R x) { return std::rint(x); }  // halves to the even one
"""

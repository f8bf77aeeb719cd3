"""Public bug reports as records: where each was reported, a small input, the right value and gradients.

`report` names the project and the number there (a pull request has one too). A value is the exact one of the formula to
the digits that are written; it comes from the report, or from a closed form in `says`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

INF, NAN = math.inf, math.nan
SINGLE = 2.0**-23
LN2 = 0.6931471805599453
H = math.sqrt(0.5)


@dataclass(frozen=True, slots=True)
class Record:
    """`loss` is a name, or a file's text; `given` its inputs, lists of floats being of type `dtype`.

    `slopes` are the gradients of the sum of the values in the inputs of these numbers, `bend` is the gradient of the
    sum of the first input's one. `rtol` is four units of the last place of the results unless the report is of less.
    """

    report: str
    says: str
    loss: str
    given: tuple[Any, ...]
    value: Any
    slopes: Mapping[int, Any] = field(default_factory=dict)
    bend: Any = None
    options: Mapping[str, Any] = field(default_factory=dict)
    dtype: str = "float64"
    rtol: float = 0.0
    atol: float = 0.0


def _text(inputs: str, returned: str) -> str:
    return f"loss reported\n{inputs}\nreturn {returned}\n"


LSE = _text("input logits[N, C]", "sum[N](logsumexp(logits))")
WRITTEN_OUT = _text("input z[N, C]\ninput y[N]: index C", "-log(softmax(z)[y])")
FINITE = """loss reported
input logits[N, C]
input target[N]: index C
param eps = 0.1 in [0, 1]
logp = log_softmax(logits)
return -(1 - eps) * logp[target] - eps * mean[C](logp where logits > -inf)
"""
KL = _text("input logp[N, C]\ninput q[N, C]: fixed", "kl(q, softmax(logp))")
KL_OF_LOGS = _text("input logp[N, C]\ninput logq[N, C]: fixed", "kl(exp(logq), exp(logp))")
KL_LEARNT = _text("input q[N, C] in [0, 1]\ninput logp[N, C]: fixed", "sum[C](q * (log(q) - logp))")
ARC = _text("input c[N] in [-1, 1]\nparam m = 0.5", "arc(c, m)")
TRIPLET = _text("input a[N, D], p[N, D], n[N, D]\nparam m = 5", "relu(dist[D](a, p) - dist[D](a, n) + m)")
TRIPLET_ROOT = _text(
    "input a[N, D], p[N, D], n[N, D]\nparam m = 5",
    "relu(sqrt(sum[D]((a - p)^2)) - sqrt(sum[D]((a - n)^2)) + m)",
)
MASKED = _text("input r[B, T]\ninput mask[B, T]: bool", "sum[T](exp(r) where mask)")
MASKED_AXIS = "loss reported\ninput r[B, T]\ninput mask[B, T]: bool\naxis T where mask\nreturn sum[T](exp(r))\n"
LISTNET = _text("input s[N, C], y[N, C]: fixed", "-sum[C](softmax[C](y) * log(softmax[C](s)))")
GUARDED = _text("input q[N] in [0, 1]", "if q > 0 then q * log(q) - 2 * q else 0")
SINC = _text("input x[N]", "if abs(x) < 0.01 then 1 - x^2 / 6 + x^4 / 120 else sin(x) / x")
HUBER = _text("input x[N]", "if abs(x) <= 1 then x^2 / 2 else abs(x) - 1 / 2")
PAIRS = _text("input v[N, C]", "sum[C](logsumexp[C'](v[C -> C'] - v))")


def _of(x: str) -> str:
    return _text("input x[N]", x)


def _absent() -> list[Record]:
    """Classes that a mask leaves out, rows that are ignored."""
    none = {"reduction": "none"}
    found = [
        Record("google-deepmind/optax#896", "0 · -inf for a class index", "cross_entropy",
               ([[-INF, 0.0, 0.0]], [1]), LN2, {0: [[0.0, -0.5, 0.5]]}),
        Record("google-deepmind/optax#896", "0 · -inf for a one-hot target of floats", "soft_target_ce",
               ([[-INF, 0.0, 0.0]], [[0.0, 1.0, 0.0]]), LN2, {0: [[0.0, -0.5, 0.5]]}),
        Record("google-deepmind/optax#896", "the target itself is absent: the limit's gradient", "cross_entropy",
               ([[-INF, 0.0, 0.0]], [0]), INF, {0: [[-1.0, 0.5, 0.5]]}),
        Record("pytorch/pytorch#31829", "the gradient of logsumexp over -inf alone", LSE,
               ([[-INF, -INF]],), -INF, {0: [[0.0, 0.0]]}),
        Record("facebookresearch/pytext#1698", "smoothing over an absent class is +inf", "label_smoothing_ce",
               ([[-INF, 0.0, 0.0]], [1]), INF, options={"eps": 0.1}),
        Record("facebookresearch/pytext#1698", "smoothing over a class at -1e9: 1e8/3 + ln 2", "label_smoothing_ce",
               ([[-1e9, 0.0, 0.0]], [1]), 1e8 / 3 + LN2, options={"eps": 0.1}),
        Record("facebookresearch/pytext#1698", "smoothing over the classes that are there", FINITE,
               ([[-INF, 0.0, 0.0]], [1]), LN2),
    ]  # fmt: skip
    for row in ([-INF, -INF], [NAN, 1.0], [INF, 1.0]):
        found.append(
            Record("allenai/open-instruct#1685", "an ignored row does not leak", "cross_entropy",
                   ([row, [0.0, 0.0]], [-100, 0]), LN2, {0: [[0.0, 0.0], [-0.5, 0.5]]})
        )  # fmt: skip
    for hidden in (200.0, -INF, NAN, INF):
        for text in (MASKED, MASKED_AXIS):
            found.append(
                Record("NVIDIA-NeMo/RL#4120", "an exponential before its mask", text,
                       ([[hidden, 0.0]], [[False, True]]), [1.0], {0: [[0.0, 1.0]]}, options=none, dtype="float32")
            )  # fmt: skip
    return found


def _probabilities() -> list[Record]:
    """Zero probabilities, saturated ones, infinite logits."""
    half, none = math.log(0.5), {"reduction": "none"}
    small = 5.551115123125776e-17
    return [
        Record("google-deepmind/optax#1267", "focal at gamma = 0 is cross-entropy: pow(0, 0)", "sigmoid_focal",
               ([1000.0], [1.0]), 0.0, {0: [0.0]}, options={"gamma": 0.0, "alpha": 1.0}),
        Record("google-deepmind/optax#1267", "its gradient where p = 1 - e^-90 and where p is ordinary", "focal",
               ([[90.0, 0.0], [0.0, 0.0]], [0, 0]), [8.194012623990515e-40, LN2],
               {0: [[-8.194012623990515e-40, 8.194012623990515e-40], [-0.5, 0.5]]},
               options={"gamma": 0.0, "reduction": "none"}),
        Record("ChiefGodMan/Focal-Loss-implement-on-Tensorflow#15", "0^(gamma - 1) at gamma < 1", "sigmoid_focal",
               ([1000.0, -1000.0], [1.0, 0.0]), [0.0, 0.0], {0: [0.0, 0.0]}, options={"gamma": 0.5, **none}),
        Record("pytorch/pytorch#89558", "a target of zero", KL,
               ([[half, half]], [[0.0, 1.0]]), LN2, {0: [[0.5, -0.5]]}),
        Record("pytorch/pytorch#89558", "a learnt probability of zero: the slope is -inf there, not NaN", KL_LEARNT,
               ([[0.0, 1.0]], [[half, half]]), LN2, {0: [[-INF, 1 + LN2]]}),
        Record("google-deepmind/optax#1786", "a log-probability of -inf under a target of zero", KL,
               ([[-INF, 0.0]], [[0.0, 1.0]]), 0.0, {0: [[0.0, 0.0]]}),
        Record("Lightning-AI/torchmetrics#1029", "a log-target of -inf", KL_OF_LOGS,
               ([[-1.0, -0.5]], [[-INF, 0.0]]), 0.5, {0: [[0.0, -1.0]]}),
        Record("Lightning-AI/torchmetrics#1029", "both logarithms -inf", KL_OF_LOGS,
               ([[-INF, -0.5]], [[-INF, 0.0]]), 0.5, {0: [[0.0, -1.0]]}),
        Record("uber/causalml#167", "+inf, not NaN, where the prediction has no mass", KL,
               ([[-INF, 0.0]], [[0.5, 0.5]]), INF),
        Record("pytorch/pytorch#49844", "infinite logits, gradients of the limits", "bce",
               ([INF, -INF, -INF, INF], [1.0, 0.0, 1.0, 0.0]), [0.0, 0.0, INF, INF], {0: [0.0, 0.0, -1.0, 1.0]},
               options=none),
        Record("pytorch/pytorch#24933", "sigmoid and then the logarithm gave 100 with gradient 0", "bce",
               ([20.0, -200.0], [0.0, 1.0]), [20.000000002061153, 200.0], {0: [0.999999997938846, -1.0]},
               options=none, dtype="float32"),
        Record("ml-explore/mlx#1280", "the same, written out: a logarithm clamped at -100", _of("-log(sigmoid(x))"),
               ([-200.0, 20.0],), [200.0, 2.061153620314381e-9], {0: [-1.0, -2.061153618190204e-9]}, options=none,
               dtype="float32"),
        Record("torch/nn#730", "log(1 - sigmoid(x))", _of("-log(1 - sigmoid(x))"),
               ([200.0, -20.0],), [200.0, 2.061153620314381e-9], {0: [1.0, 2.061153618190204e-9]}, options=none,
               dtype="float32"),
        Record("pytorch/pytorch#24933", "the logarithm of a softmax", WRITTEN_OUT,
               ([[10.0, 0.0, -100.0]], [2]), 110.00004539889922, dtype="float32"),
        Record("pytorch/pytorch#195678", "p - 1 by subtraction, in double", "cross_entropy",
               ([[37.42994775023705, 0.0]], [0]), small, {0: [[-small, small]]}),
        Record("linkedin/Liger-Kernel#1329", "p - 1 by subtraction, in single", "cross_entropy",
               ([[17.0, 0.0]], [0]), 4.139937633e-08, {0: [[-4.139937547e-08, 4.139937547e-08]]}, dtype="float32"),
        Record("vllm-project/speculators#788", "p - q of a student near its teacher", "kd_kl",
               ([[1.0, 0.0, -1.0]], [[1.01, 0.0, -1.0]]), 1.11101458872094708e-05,
               {0: [[-0.00222326199881756410, 0.00162533475677767200, 0.000597927242039892100]]},
               options={"t": 1.0}, rtol=1e-13),  # 1.01 is rounded
        Record("RUCAIBox/RecBole 1.2.1", "BPRLoss: -log(1e-10 + sigmoid(d))", _of("-log(sigmoid(x))"),
               ([-120.0, -30.0, 0.0],), [120.0, 30.00000000000009, LN2], {0: [-1.0, -1.0, -0.5]}, options=none,
               dtype="float32"),
        Record("allegro/allRank 1.4.3", "listNet: -sum(q log(1e-10 + p))", LISTNET,
               ([[200.0, 0.0, -200.0, 0.0]], [[3.0, 2.0, 1.0, 0.0]]), 88.64601177, rtol=2e-10),
        *(
            Record("pytorch/pytorch#195829", f"a common offset of {c:g}", "cross_entropy",
                   ([[1 + c, 2 + c, 3 + c]], [0]), 2.40760596444438,
                   {0: [[-0.909969427, 0.244728471, 0.665240956]]}, dtype="float32")
            for c in (0.0, 1e2, -1e2, 1e4, -1e4, 1e6, -1e6)
        ),
    ]  # fmt: skip


def _kinks() -> list[Record]:
    """Roots and angles at their ends, branches, kinks, forms whose derivative is unstable."""
    none, h = {"reduction": "none"}, H
    softplus = [0.0, 1.0, -1.0, 20.0, -20.0, 80.0, -80.0, 1000.0]
    values = [LN2, 1.3132616875182228, 0.3132616875182228, 20.00000000206115, 2.061153620314381e-9, 80.0,
              1.8048513878454153e-35, 1000.0]  # fmt: skip
    slopes = [0.5, 0.7310585786300049, 0.2689414213699951, 0.999999997938846, 2.061153618190204e-9, 1.0,
              1.8048513878454153e-35, 1.0]  # fmt: skip
    return [
        Record("KevinMusgrave/pytorch-metric-learning#537", "beyond pi - m a worse angle goes on costing more: 130° and"
               " 170° at m = 30°", ARC, ([math.cos(math.radians(a)) for a in (130.0, 170.0)],),
               [-0.9396926207859083, math.cos(math.radians(170.0)) - math.pi / 12], options={"m": math.pi / 6, **none}),
        Record("deepinsight/insightface#247", "it jumps at pi - m, downwards: from -1 to cos(pi - m) - m sin m", ARC,
               ([math.cos(math.pi * 5 / 6 + e) for e in (-1e-9, 1e-9)],),
               [-1.0, -math.sqrt(0.75) - math.pi / 12], options={"m": math.pi / 6, **none}, rtol=1e-8),
        *(
            Record(report, f"a distance of zero, the hinge {'' if scale else 'in'}active", text,
                   ([[1.0, 2.0]], [[1.0, 2.0]], [[3.0, 4.0]]), max(m - math.sqrt(8), 0),
                   {0: [[scale * h, scale * h]], 1: [[0.0, 0.0]], 2: [[-scale * h, -scale * h]]}, options={"m": m})
            for report, text in (
                ("huggingface/sentence-transformers#4033", TRIPLET),
                ("tensorflow/tensorflow#30199", TRIPLET_ROOT),
            )
            for m, scale in ((5.0, 1.0), (1.0, 0.0))
        ),
        Record("sympy/sympy#11306", "both branches of a Piecewise are evaluated", GUARDED,
               ([0.0, 0.5],), [0.0, 0.5 * math.log(0.5) - 1], {0: [0.0, math.log(0.5) - 1]}, [0.0, 2.0], none),
        Record("sympy/sympy#11402", "the second derivative of sinc at 0 is -1/3", SINC,
               ([0.0, 0.5],), [1.0, math.sin(0.5) / 0.5],
               {0: [0.0, math.cos(0.5) / 0.5 - math.sin(0.5) / 0.25]},
               [-1 / 3, -2 * math.sin(0.5) - 8 * math.cos(0.5) + 16 * math.sin(0.5)], none, rtol=1e-13),
        Record("sympy/sympy#14307", "the second derivative of Huber's loss has no DiracDelta", HUBER,
               ([0.0, 0.5, -0.5, 3.0, -3.0],), [0.0, 0.125, 0.125, 2.5, 2.5], {0: [0.0, 0.5, -0.5, 1.0, -1.0]},
               [1.0, 1.0, 1.0, 0.0, 0.0], none),
        *(
            Record("sympy/sympy#26663", f"the slope of {form} at its kink is a convention", _of(form),
                   ([0.0, 2.0, -2.0],), value, {0: slope}, options=none)
            for form, value, slope in (
                ("abs(x)", [0.0, 2.0, 2.0], [0.0, 1.0, -1.0]),
                ("relu(x)", [0.0, 2.0, 0.0], [0.0, 1.0, 0.0]),
                ("max(x, 0)", [0.0, 2.0, 0.0], [0.5, 1.0, 0.0]),  # who ties shares
            )
        ),
        *(
            Record("sympy/sympy#19136", f"e^x / (e^x + 1), the derivative of {form}, at 1000", _of(form),
                   (softplus,), values, {0: slopes}, options=none, dtype=dtype)
            for form in ("log(1 + exp(x))", "-log(1 - sigmoid(x))", "log(exp(x) + 1)")
            for dtype in ("float32", "float64")
        ),
        Record("sympy/sympy#24696", "log-sum-exps in a log-sum-exp: simplify never came back; 8·lse(v) - Σv", PAIRS,
               ([[float(k) for k in range(8)]],), 8 * 7.458339626 - 28,
               {0: [[8 * math.exp(k - 7.458339626) - 1 for k in range(8)]]}, rtol=5e-9),
    ]  # fmt: skip


def _meanings() -> list[Record]:
    """Numbers that libraries disagree about: which mean, which formula."""
    z, w, none = [[1.0, 2.0, 3.0], [0.0, 0.0, 0.0]], [1.0, 2.0, 3.0], {"reduction": "none"}
    q, p = [[0.7, 0.2, 0.1], [0.1, 0.1, 0.8]], [[0.5, 0.3, 0.2], [0.2, 0.2, 0.6]]
    logs = ([[math.log(x) for x in row] for row in p], [[math.log(x) for x in row] for row in q])
    eight = [[float(k) for k in range(1, 9)]]
    return [
        Record("pytorch/pytorch#70348", "every target ignored: 0, or NaN by choice", "cross_entropy",
               (z, [-100, -100]), 0.0, {0: [[0.0] * 3] * 2}),
        Record("pytorch/pytorch#70348", "every target ignored: NaN by choice", "cross_entropy",
               (z, [-100, -100]), NAN, options={"empty": "nan"}),
        Record("pytorch/pytorch#54843", "weighted mean: the sum of the weights", "weighted_cross_entropy",
               (z, [2, 0], w), 0.580357546, rtol=1e-8),
        Record("pytorch/pytorch#54843", "weighted mean: the elements", "weighted_cross_entropy",
               (z, [2, 0], w), 1.160715091, options={"denominator": "elements"}, rtol=1e-8),
        Record("pytorch/pytorch#54843", "weighted mean with an ignored row", "weighted_cross_entropy",
               (z, [2, -100], w), 0.407605964, rtol=1e-8),
        Record("fastai/fastai#1814", "smoothing over all classes", "label_smoothing_ce",
               ([[2.0, 0.0]], [0]), 0.226928011, options={"eps": 0.1}, rtol=1e-8),
        Record("NVIDIA/Megatron-LM#737", "smoothing over all of eight classes", "label_smoothing_ce",
               (eight, [0]), 7.108339626, options={"eps": 0.1}, rtol=1e-9),
        Record("pytorch/pytorch#2259", "a divergence sums over its classes", "kd_kl",
               logs, 0.088319524, options={"t": 1.0}, rtol=1e-8),
        *(
            Record("pytorch/pytorch#152437", "soft targets that are no distribution: linear in them", "soft_target_ce",
                   ([[0.0, 0.0, 0.0]], [row]), sum(row) * math.log(3), {0: [[sum(row) / 3 - x for x in row]]},
                   atol=1e-15)
            for row in ([0.5, 0.0, 0.0], [0.0, 0.0, 0.0], [1.0, 1.0, 1.0], [-2.0, -2.0, -2.0])
        ),
        Record("pytorch/pytorch#152437", "Σ q · p - q at Σ q = 1/2", "soft_target_ce",
               ([[1.0, 0.0, 0.0]], [[0.5, 0.0, 0.0]]), 0.275722356966025545,
               {0: [[-0.211941557617085441, 0.105970778808542722, 0.105970778808542722]]}),
        Record("pytorch/pytorch#96813", "smooth L1 at beta = 0 is |d|", "smooth_l1",
               ([0.0, 1e-8, 0.5], [0.0, 0.0, 0.0]), [0.0, 1e-8, 0.5], {0: [0.0, 1.0, 1.0]},
               options={"beta": 0.0, **none}),
        Record("Project-MONAI/MONAI#3917", "Huber at delta = 2 of 1 and 3", "huber",
               ([1.0, 3.0], [0.0, 0.0]), [0.5, 4.0], {0: [1.0, 2.0]}, options={"delta": 2.0, **none}),
        Record("Project-MONAI/MONAI#3917", "smooth L1 at beta = 2 of 1 and 3", "smooth_l1",
               ([1.0, 3.0], [0.0, 0.0]), [0.25, 2.0], {0: [0.5, 1.0]}, options={"beta": 2.0, **none}),
        Record("HobbitLong/SupContrast#42", "collapsed embeddings: ln(M - 1) of M", "supcon",
               ([[0.6, 0.8]] * 8, [0, 0, 1, 1, 2, 2, 3, 3]), math.log(7)),
        Record("KevinMusgrave/pytorch-metric-learning#107", "all triplets inactive: 0, no 0/0", "triplet_margin",
               ([[0.0, 0.0]], [[0.0, 0.0]], [[9.0, 0.0]]), 0.0, {0: [[0.0, 0.0]], 2: [[0.0, 0.0]]}),
        Record("keras-team/tf-keras#734", "ignored pixels don't count: 3 of loss ln 2, 1 ignored", "cross_entropy",
               ([[0.0, 0.0]] * 4, [0, 1, 0, -1]), LN2, options={"ignore_index": -1}),
        Record("ethz-asl/background_foreground_segmentation#25", "or they do, by name", "cross_entropy",
               ([[0.0, 0.0]] * 4, [0, 1, 0, -1]), 0.75 * LN2,
               options={"ignore_index": -1, "denominator": "elements"}),
        Record("IDEA-Research/T-Rex#105", "a softmax over one class is constant", "cross_entropy",
               ([[0.7], [-3.0]], [0, 0]), 0.0, {0: [[0.0], [0.0]]}),
        Record("verl-project/verl#2899", "padded lanes: ln 129, not ln 256", "cross_entropy",
               ([[0.0] * 129], [0]), math.log(129)),
        Record("qubvel-org/segmentation_models.pytorch", "focal at gamma = 2 of [1, 2, 1/2], target 1", "focal",
               ([[1.0, 2.0, 0.5]], [1]), 0.064078, options={"gamma": 2.0}, rtol=1e-5),
    ]  # fmt: skip


RECORDS: tuple[Record, ...] = (*_absent(), *_probabilities(), *_kinks(), *_meanings())


# Reports of another kind than a number: the test that stands for each, `file::test`.
ELSEWHERE = {
    "pytorch/pytorch#85791": "test_numerics::test_half_precision_sums_in_single",
    "NVIDIA/TransformerEngine#3193": "test_numerics::test_half_inputs_give_the_loss_of_their_values",
    "vllm-project/speculators#788": "test_numerics::test_divergence_gradients_in_half_precision",
    "KevinMusgrave/pytorch-metric-learning#537": "test_singular::test_an_angular_margin_goes_on_punishing",
    "sympy/sympy#11306": "test_singular::test_only_the_branch_that_is_taken_is_felt",
    "sympy/sympy#11402": "test_singular::test_a_value_for_one_point_is_pointed_at",
    "sympy/sympy#19136": "test_singular::test_compiling_never_hangs",
    "pytorch/pytorch#50224": "test_semantics::test_an_empty_batch",
    "lyuwenyu/RT-DETR#684": "test_semantics::test_a_batch_without_targets_reaches_every_parameter",
    "pytorch/pytorch#104776": "test_semantics::test_smoothing_with_class_weights",
    "pytorch/pytorch#63004": "test_semantics::test_an_ignored_target_that_is_a_class",
    "pytorch/pytorch#89369": "test_semantics::test_targets_of_every_integer_type",
    "huggingface/transformers#46731": "test_semantics::test_gradient_accumulation_divides_by_the_whole",
    "pytorch/pytorch#16045": "test_semantics::test_a_column_against_a_row_is_an_error",
    "HobbitLong/SupContrast#141": "test_semantics::test_an_anchor_without_a_positive",
    "ROCm/TransformerEngine#623": "test_semantics::test_an_expanded_upstream_gradient",
}

"""The identifier table of a generated module: every name of a file that becomes one of Python goes through here."""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Iterable

from lossdsl.plan.names import ascii_name, distinct

OPTIONS = ("reduction", "ignore_index", "denominator", "empty", "class_dim", "aux", "check")

# What a Loss has as an nn.Module and by itself: a param of this name would hide it. A test compares with torch's.
_ATTRIBUTES = """
    T_destination add_module apply bfloat16 bind buffers call call_super_init children compile compiled cpu cuda double
    dump_patches eval extra_repr float forward get_buffer get_extra_state get_parameter get_submodule half ipu
    load_state_dict modules mtia named_buffers named_children named_modules named_parameters parameters
    register_backward_hook register_buffer register_forward_hook register_forward_pre_hook
    register_full_backward_hook register_full_backward_pre_hook register_load_state_dict_post_hook
    register_load_state_dict_pre_hook register_module register_parameter register_state_dict_post_hook
    register_state_dict_pre_hook requires_grad_ restore set_extra_state set_submodule share_memory state_dict to
    to_empty train training type xpu zero_grad
"""
ATTRIBUTES = frozenset(_ATTRIBUTES.split())
_MODULE = """
    Any COMPILED Compiled EQUATION InputSpec KernelSpec Loss ParamSpec SIGNATURE Signature
    Tensor aux functional gradient gradient_params second second_params self super torch value
"""
MODULE = frozenset(_MODULE.split())
_WORDS = frozenset({*keyword.kwlist, *keyword.softkwlist, *dir(builtins)})


def identifier(name: str, taken: Iterable[str] = ()) -> str:
    """`name` as an identifier: γ → gamma, lambda → lambda_; distinct from those taken."""
    base = re.sub(r"\W", "_", ascii_name(name), flags=re.ASCII).strip("_") or "x"
    if base[0].isdigit():
        base = f"x{base}"
    if base in _WORDS:
        base += "_"
    taken = frozenset(taken)
    if base in taken and f"{base}_" not in taken:
        return f"{base}_"
    return distinct(base, taken)


def arguments(names: Iterable[str]) -> dict[str, str]:
    """The identifiers of a loss's inputs and params, by their names in the file."""
    taken = {*OPTIONS, *ATTRIBUTES, *MODULE}
    table: dict[str, str] = {}
    for name in names:
        table[name] = identifier(name, taken)
        taken.add(table[name])
    return table


def class_name(name: str, taken: Iterable[str]) -> str:
    """The class of a loss: cross_entropy → CrossEntropy."""
    words = re.split(r"_+", identifier(name).strip("_"))
    joined = "".join(word[:1].upper() + word[1:] for word in words)
    return identifier(joined, taken)

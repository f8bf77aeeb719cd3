"""A module's kernels as torch ops: a fake for tracing and a rule for vmap, no autograd.

Derivatives are `autograd.Function`s around these ops, so that functorch, torch.compile
and higher derivatives see formulas and not a black box.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from lossdsl.runtime.binding import compute_dtype
from lossdsl.runtime.signature import KernelFunction, Signature, base_axis

# An op lives as long as its library does.
LIBRARY = torch.library.Library("lossdsl", "FRAGMENT")  # type: ignore[no-untyped-call]
DTYPES = {"int": torch.int64, "bool": torch.bool}


class Program:
    """One kernel of a loss, called with tensors by position.

    Calling it runs the kernel at once; `through` goes by the dispatcher. Both give a
    tuple with "grad.x" in the dtype of x, and both leave autocast aside.
    """

    def __init__(
        self, signature: Signature, name: str, function: KernelFunction, identity: str
    ) -> None:
        self.spec = spec = dict(signature.kernels)[name]
        self.sized = tuple(axis for axis, _ in signature.sizes)
        self.free = tuple((self.sized.index(a), word) for a, word in spec.sizes)
        self.batch = signature.batch
        self.rowwise = signature.rowwise
        self.function = function
        self.names = names = {arg: i for i, arg in enumerate(spec.args)}
        axes = {s.name: s.axes for s in signature.inputs}
        axes |= {s.name: s.axes for s in signature.params}
        axes |= {f"@grad.{name}": own for name, own in axes.items()}
        axes |= {s.given: () for s in signature.inputs if s.computed}
        axes |= {"@rows": signature.batch, "@weight": signature.batch}
        self.axes = tuple(axes[arg] for arg in spec.args)
        self.real = tuple(
            names[s.name]
            for s in signature.inputs
            if s.name in names and (s.kind == "real" or s.kind.startswith("prob"))
        )
        # where an output takes its dtype from: the argument that it is a cotangent of
        self.like = tuple(
            names.get(out.partition(".")[2]) if "." in out else None
            for out, _, _ in spec.outs
        )
        # "both" and "weight" serve plain calls alone
        # operators of torch have names in ASCII, losses in letters of any script
        plainly = "".join(c if c.isascii() else f"u{ord(c):x}" for c in signature.name)
        self.name = f"{plainly}_{name}_{identity}"
        plain = name == "weight" or name.startswith("both")
        self.fresh = not plain and not hasattr(torch.ops.lossdsl, self.name)
        self.op: Any = None if plain else self._define()

    def __call__(
        self,
        *args: Tensor,
        sizes: Sequence[int] = (),
        into: Sequence[Tensor | None] = (),
    ) -> tuple[Tensor, ...]:
        """`into` is memory for results, of backends that take it."""
        device = args[0].device.type
        if device != "meta" and torch.is_autocast_enabled(device):
            with torch.autocast(device, enabled=False):
                return self._run(args, sizes, into)
        return self._run(args, sizes, into)

    def through(self, *args: Tensor, sizes: Sequence[int] = ()) -> tuple[Tensor, ...]:
        """The same through the dispatcher: what functorch and torch.compile see."""
        outs = self.op(*args, sizes) if self.sized else self.op(*args)
        return (outs,) if isinstance(outs, Tensor) else tuple(outs)

    def _run(
        self,
        args: Sequence[Tensor],
        sizes: Sequence[int],
        into: Sequence[Tensor | None] = (),
    ) -> tuple[Tensor, ...]:
        more: dict[str, Any] = {word: sizes[i] for i, word in self.free}
        if into:
            more["into"] = into
        outs = self.function(*args, **more) if more else self.function(*args)
        for at, out in zip(self.like, outs, strict=True):
            if at is not None and out.dtype != args[at].dtype:
                return tuple(
                    o if i is None else o.to(args[i].device, args[i].dtype)
                    for i, o in zip(self.like, outs, strict=True)
                )
        return outs

    # --- the op -----------------------------------------------------------------------

    def _define(self) -> Any:
        """Define the op, unless a module with the same text has done it."""
        name = self.name
        if self.fresh:
            args = [f"Tensor a{i}" for i in range(len(self.spec.args))]
            if self.sized:
                args.append("SymInt[] sizes")
            outs = ", ".join(["Tensor"] * len(self.spec.outs))
            LIBRARY.define(f"{name}({', '.join(args)}) -> ({outs})")  # type: ignore[no-untyped-call]
            LIBRARY.impl(name, self._real, "CompositeExplicitAutograd")  # type: ignore[no-untyped-call]
            torch.library.register_fake(f"lossdsl::{name}", self._fake, lib=LIBRARY)
            torch.library.register_vmap(f"lossdsl::{name}", self._vmap, lib=LIBRARY)
        return getattr(torch.ops.lossdsl, name).default

    def _split(self, args: Sequence[Any]) -> tuple[Sequence[Tensor], Sequence[int]]:
        return (args[:-1], args[-1]) if self.sized else (args, ())

    def _real(self, *args: Any) -> Any:
        """Run the kernel; an op's results are contiguous and share no memory."""
        tensors, sizes = self._split(args)
        outs = self(*tensors, sizes=sizes)
        taken = {x.untyped_storage().data_ptr() for x in tensors}
        fresh = []
        for out in outs:
            if not out.is_contiguous() or out.untyped_storage().data_ptr() in taken:
                out = out.clone(memory_format=torch.contiguous_format)
            taken.add(out.untyped_storage().data_ptr())
            fresh.append(out)
        return fresh[0] if len(fresh) == 1 else tuple(fresh)

    def _fake(self, *args: Any) -> Any:
        """Results of the right shape and dtype, from the sizes of the arguments."""
        tensors, numbers = self._split(args)
        sizes: dict[str, Any] = dict(zip(self.sized, numbers, strict=True))
        for own, x in zip(self.axes, tensors, strict=True):
            sizes.update(zip(map(base_axis, own), x.shape, strict=True))
        dtype = compute_dtype([tensors[i] for i in self.real])
        outs = []
        for at, (_, own, what) in zip(self.like, self.spec.outs, strict=True):
            like = tensors[0] if at is None else tensors[at]
            outs.append(
                torch.empty(
                    [sizes[base_axis(axis)] for axis in own],
                    dtype=DTYPES.get(what, dtype) if at is None else like.dtype,
                    device=like.device,
                )
            )
        return outs[0] if len(outs) == 1 else tuple(outs)

    def register(self, following: Program | None, missing: str) -> None:
        """Give the op a backward by the next program: for uses outside `lane.py`."""
        if not self.fresh:
            return

        def setup(ctx: Any, inputs: Any, output: Any) -> None:
            tensors, ctx.sizes = self._split(inputs)
            ctx.save_for_backward(*tensors)

        def backward(ctx: Any, *grads: Any) -> Any:
            if following is None:
                raise NotImplementedError(missing)
            known = dict(zip(self.spec.args, ctx.saved_tensors, strict=True))
            known |= {
                f"@{out}": grad
                for (out, _, _), grad in zip(self.spec.outs, grads, strict=True)
            }
            args = [known[name] for name in following.spec.args]
            found = following.through(*args, sizes=ctx.sizes)
            by = {
                out.partition(".")[2]: x
                for (out, _, _), x in zip(following.spec.outs, found, strict=True)
            }
            own = [by.get(name) for name in self.spec.args]
            return tuple([*own, None] if self.sized else own)

        torch.library.register_autograd(
            self.op, backward, setup_context=setup, lib=LIBRARY
        )

    # --- vmap -------------------------------------------------------------------------

    def _vmap(self, info: Any, in_dims: Sequence[Any], *args: Any) -> Any:
        """Fold the mapped axis into the rows where rows are independent; else loop."""
        tensors, sizes = self._split(args)
        dims = in_dims[: len(tensors)]
        outs = (
            self._folded(info.batch_size, dims, tensors, sizes)
            if self._folds(dims)
            else self._looped(info.batch_size, dims, tensors, sizes)
        )
        return (outs[0], 0) if len(outs) == 1 else (tuple(outs), (0,) * len(outs))

    def _folds(self, dims: Sequence[int | None]) -> bool:
        """Whether every mapped argument and every result has the first batch axis."""
        first = self.batch[:1]
        return (
            bool(first)
            and self.rowwise
            and all(first[0] in own for _, own, _ in self.spec.outs)
            and all(
                first[0] in own
                for own, d in zip(self.axes, dims, strict=True)
                if d is not None
            )
        )

    def _folded(
        self,
        count: int,
        dims: Sequence[int | None],
        tensors: Sequence[Tensor],
        sizes: Sequence[int],
    ) -> list[Tensor]:
        first, folded = self.batch[0], []
        for own, d, x in zip(self.axes, dims, tensors, strict=True):
            if first in own:
                at = own.index(first)
                if d is None:
                    x = x.unsqueeze(at).expand((*x.shape[:at], count, *x.shape[at:]))
                else:
                    x = x.movedim(d, at)
                rows = count * x.shape[at + 1]
                x = x.reshape((*x.shape[:at], rows, *x.shape[at + 2 :]))
            folded.append(x)
        outs = []
        for (_, own, _), out in zip(
            self.spec.outs, self.through(*folded, sizes=sizes), strict=True
        ):
            at = own.index(first)
            rows = out.shape[at] // count
            out = out.reshape((*out.shape[:at], count, rows, *out.shape[at + 1 :]))
            outs.append(out.movedim(at, 0))
        return outs

    def _looped(
        self,
        count: int,
        dims: Sequence[int | None],
        tensors: Sequence[Tensor],
        sizes: Sequence[int],
    ) -> list[Tensor]:
        each = [
            self.through(
                *(
                    x if d is None else x.select(d, i)
                    for d, x in zip(dims, tensors, strict=True)
                ),
                sizes=sizes,
            )
            for i in range(count)
        ]
        return [torch.stack(outs) for outs in zip(*each, strict=True)]

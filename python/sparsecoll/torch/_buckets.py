# SPDX-License-Identifier: Apache-2.0
"""The buckets that DDP hands out, each with its reducer, residual and velocity; and what waits for the next layout.

Residual and velocity belong to parameters, by name, because DDP cuts other buckets after the first step and after a
resume, and an exported state fits a reducer of the same length only. One reducer for all parameters could send nothing
during backward."""
from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import statistics
import time
from typing import Any, Callable, Dict, List, Optional, Set, Tuple

import torch
import torch.distributed as dist

from .._abi import SPARSECOLL_NESTEROV
from .._errors import InvalidArgument, NonFinite, Unsupported
from .._reducer import Reducer, Segment, method_params, preset_of
from .._stats import Stats
from ._gather import complete

_TIMED = 3  # dense steps of a bucket that are timed for auto, behind one that settles; of them the median counts


@dataclasses.dataclass(frozen=True)
class BucketStats:
    """What a bucket of the latest step sends, and how. Times and sizes are those of its latest step on this rank."""

    parameters: Tuple[str, ...]
    elements: int
    plan: str  # "dense" through the process group, or the preset; with "auto" the one that ran
    reason: str  # why, in a sentence
    density: float  # of the elements that are selected from; 1 for "dense"
    milliseconds: float  # from the worker's start to the sum
    bytes_sent: int  # of messages; for "dense" what a ring all-reduce sends
    bytes_dense: int  # what a ring all-reduce would have sent
    counters: Optional[Stats]  # of its reducer; None for "dense"


@dataclasses.dataclass
class Method:
    """How buckets are sent; the same on all ranks."""

    preset: str
    density: float
    warmup_steps: int
    adjust: Optional[object] = None
    momentum: float = 0.0
    nesterov: bool = False
    input_scale: float = 1.0
    output_scale: float = 1.0
    clip_norm: float = 0.0
    undo: bool = False  # steps with NaN or Inf
    raises: bool = False  # NonFinite in such steps
    warms_up: bool = False  # the density is not yet the one that stays
    static_graph: bool = False  # every step uses the same parameters

    def read_adjust(self):
        """Takes over what the hook does itself, where buckets are dense, too."""
        def adjust(params):
            params.momentum = 0
            if self.adjust is not None:
                self.adjust(params)

        params = method_params(self.preset, self.density, None, "avg", adjust)
        if params.momentum:
            raise InvalidArgument("adjust sets momentum: sparsecoll.torch.attach takes it from the optimiser")
        if params.flags & SPARSECOLL_NESTEROV:
            raise InvalidArgument("adjust sets SPARSECOLL_NESTEROV: sparsecoll.torch.attach takes it from the "
                                  "optimiser")
        self.clip_norm = params.clipNorm

    def adjusted(self, params):
        """Momentum is the optimiser's, whatever the preset has."""
        if self.adjust is not None:
            self.adjust(params)
        params.momentum = self.momentum
        if self.nesterov:
            params.flags |= SPARSECOLL_NESTEROV

    @property
    def running(self):
        """The preset of buckets that have not chosen. Auto's trials wait for the density that stays."""
        return "topka" if self.preset == "auto" and self.warms_up else self.preset

    @property
    def per_tensor(self):
        """Top-k of each tensor on its own does not depend on which bucket it is in, so that another layout has the
        same bits; other selectors cannot do it. Among auto's candidates only spardl cannot, which it then leaves
        out."""
        return self.preset in ("topka", "auto")


def accumulate_type(dtype):
    return torch.float64 if dtype == torch.float64 else torch.float32


def _all_finite(values):
    # A sum is a thirtieth of the time; where it is not finite it may have overflowed.
    return bool(torch.isfinite(values.sum())) or bool(torch.isfinite(values).all())


def _average(total, group, communicator):
    # As DDP does: what half precision can hold of each rank's may be too much for their sum.
    total.div_(communicator.size)
    complete(communicator, dist.all_reduce, total, group=group)


def nanoseconds(job):
    """What job takes, which is run."""
    begin = time.perf_counter_ns()
    job()
    return time.perf_counter_ns() - begin


class Bucket:
    """Some parameters whose gradients arrive as one vector."""

    def __init__(self, index, names, lengths, kept, dtype, store):
        self.index, self.names, self.lengths, self.kept, self.dtype = index, names, lengths, kept, dtype
        self.n = sum(lengths)
        self.steps = 0  # in a row, without a reducer
        self.reducer: Optional[Reducer] = None
        self.residual: Optional[torch.Tensor] = None
        self.made = ("dense", 1.0)  # preset and density of the reducer
        self.choice: Optional[str] = None  # of auto's trials, or of a state that was loaded: a preset
        self.reason = ""  # of the choice
        self.dense_times = []  # nanoseconds, of the process group's timed steps
        self.dense_steps = 0
        self.buffer: Optional[torch.Tensor] = None  # of the latest step, until that is given back or another one begins
        self.seconds = 0.0
        self._store = store
        self._velocity: Optional[torch.Tensor] = None
        self._before = None  # residual and velocity before the latest step, where it may be undone
        self._along: Optional[torch.Tensor] = None  # the residual that the latest step, a dense one, took along
        self._velocity_before: Optional[torch.Tensor] = None  # that step
        self._spare: Optional[torch.Tensor] = None  # room for the next dense step's velocity
        self._unused: Optional[List[Tuple[int, int]]] = None  # ranges without a gradient on any rank in that step
        self._given_back = False  # the latest step, which leaves what is kept dense in the residual, too; on all ranks
        self._inherits = self._inherit_choice()
        self.overflowed: Set[str] = set()  # parameters with NaN or Inf in the latest step

    def ranges(self):
        """(name, begin, end, kept dense) of each parameter."""
        at = 0
        for name, length, kept in zip(self.names, self.lengths, self.kept):
            yield name, at, at + length, kept
            at += length

    def exchange(self, buffer, method: Method, group, communicator, ready, used: Optional[List[bool]] = None):
        """Replaces buffer by the ranks' average, of which the optimiser's momentum is a part where method has it.

        used: for which parameters this rank has a gradient; None where DDP hands out the averages of all. Otherwise it
        drops those that no rank has used, and leaves alone what gradients of earlier steps are there: so does this,
        and their residuals and velocities stay what they are."""
        begin = time.perf_counter()
        self.forget_step()
        self.buffer = buffer
        if self._chose_dense():
            self._keep_choice()  # from now on by the process group
        if self.reducer is not None and self.made != (self.choice or method.running, method.density):
            self.close_reducer()
        if self.reducer is None and self._wants_reducer(method, ready):
            self._make_reducer(method, communicator)
        dense = method.preset == "dense" or self.choice == "dense" or all(self.kept)
        if dense and self.residual is None and not self._store.residuals.keys().isdisjoint(self.names):
            self.residual = self._take(self._store.residuals)
        if used is not None and (self._unused is None or not method.static_graph):
            self._unused = self._find_unused(used, group, communicator)
        unused = self._unused or []
        stale = [buffer[first:last].clone() for first, last in unused]
        for first, last in unused:
            buffer[first:last] = 0
        if method.undo:
            if method.momentum:
                self.velocity()
            self._before = [None if each is None else each.clone() for each in (self.residual, self._velocity)]
        try:
            if self.reducer is None:
                self._run_dense(buffer, method, group, communicator, unused)
            else:
                self._run_sparse(buffer, method)
        except NonFinite:
            self.forget_step()
            self._store.refuse_step(method.undo)
            raise
        finally:
            for (first, last), values in zip(unused, stale):
                buffer[first:last] = values
        self.steps += 1
        self._given_back = False
        if self._store.step_refused:
            self.leave_step()
        self.overflowed = set()
        if method.undo and not _all_finite(buffer):
            self.overflowed = {name for name, first, last, _ in self.ranges()
                               if not torch.isfinite(buffer[first:last]).all()}
        self.seconds = time.perf_counter() - begin

    def _find_unused(self, used, group, communicator):
        """As DDP does itself, which tells once all buckets have gone out."""
        anywhere = torch.tensor(used, dtype=torch.uint8)
        complete(communicator, dist.all_reduce, anywhere, dist.ReduceOp.MAX, group=group)
        return [(begin, end) for (_, begin, end, _), rank in zip(self.ranges(), anywhere.tolist()) if not rank]

    @contextlib.contextmanager
    def _without_unused(self):
        """Residual and velocity of unused parameters are 0 meanwhile, and then as before."""
        parts = [vector[begin:end] for vector in (self.residual, self._velocity) if vector is not None
                 for begin, end in self._unused or ()]
        before = [part.clone() for part in parts]
        for part in parts:
            part.zero_()
        try:
            yield
        finally:
            for part, values in zip(parts, before):
                part.copy_(values)

    def _chose_dense(self):
        """Auto decides as a step begins, which the library then sums itself."""
        return self.reducer is not None and self.made[0] == "auto" and self.reducer.info().collective == "dense"

    def _wants_reducer(self, method, ready):
        if method.preset == "dense" or self.choice == "dense" or all(self.kept) or self.n == 0:
            return False
        if self.choice is None and method.preset == "auto" and self.dense_steps <= _TIMED:
            return False  # also where the density warms up: later the residual would go along in one of these steps
        return ready or self.steps >= method.warmup_steps

    def _make_reducer(self, method, communicator):
        if self.residual is None:
            self.residual = self._take(self._store.residuals)
        self._spare = None
        density = method.density if method.per_tensor else 0.0
        segments = [Segment(length, 0.0 if kept else density, kept) for length, kept in zip(self.lengths, self.kept)
                    if length]
        self.made = self.choice or method.running, method.density
        timed = self.made[0] == "auto" and self.dense_times
        self.reducer = Reducer(communicator, self.n, self.dtype, preset=self.made[0], density=method.density, op="avg",
                               segments=segments, residual=self.residual,
                               velocity=self.velocity() if method.momentum else None, tag=self.index,
                               adjust=method.adjusted,
                               dense_ns=statistics.median_low(self.dense_times) if timed else 0)

    def _inherit_choice(self):
        """Whether a layout before this one has chosen. Of parameters that do not agree the larger part decides, until
        they are in a bucket of their own again."""
        elements: Dict[str, int] = {}
        for name, begin, end, kept in self.ranges():
            if not kept:
                choice = self._store.choices.get(name, "")
                elements[choice] = elements.get(choice, 0) + end - begin
        choice = max(elements, key=lambda each: (elements[each], each)) if elements else ""
        if choice:
            self.choice, self.reason = choice, f"auto: {choice}, chosen before for most of its elements"
        return bool(choice)

    def _keep_choice(self):
        """What auto has decided outlives its reducer, which ends."""
        if self.reducer is None:
            return
        if self.made[0] == "auto" and self.reducer.decided():
            info = self.reducer.info()
            self.choice, self.reason = preset_of(info), f"auto: {info.reason}"
        self.close_reducer()

    def chosen(self) -> Optional[str]:
        """What auto has decided for this very bucket."""
        if self._inherits:
            return None
        if self.choice is None and self.reducer is not None and self.made[0] == "auto" and self.reducer.decided():
            return preset_of(self.reducer.info())
        return self.choice

    def undo(self, names):
        """Residual and velocity of these parameters are again as before the latest step, with a new reducer, which has
        seen none of it."""
        if self._before is None or not names:
            return
        self._keep_choice()
        for kind, before in zip(("residual", "_velocity"), self._before):
            if before is None:
                continue
            now = getattr(self, kind)
            if now is None:
                now = torch.zeros_like(before)
                setattr(self, kind, now)
            for name, begin, end, _ in self.ranges():
                if name in names:
                    now[begin:end] = before[begin:end]
        self._before = None
        self.forget_step()

    def forget_step(self):
        """The latest step cannot be given back any more."""
        if self._velocity_before is not None:
            self._spare = self._velocity_before
        self.buffer = self._along = self._velocity_before = None

    def close_reducer(self):
        if self.reducer is not None:
            self.reducer.close()
            self.reducer = None

    def _take(self, store: Dict[str, torch.Tensor]):
        """A vector of what the store has for the parameters, which it then has no more."""
        vector = torch.zeros(self.n, dtype=accumulate_type(self.dtype))
        for name, begin, end, _ in self.ranges():
            if name in store:
                vector[begin:end] = store.pop(name)
        return vector

    def velocity(self):
        if self._velocity is None:
            self._velocity = self._take(self._store.velocities)
        return self._velocity

    def copy_to(self, residuals: Dict[str, torch.Tensor], velocities: Dict[str, torch.Tensor],
                choices: Dict[str, str]):
        """Copies of what it holds of each parameter, by name."""
        choice = self.chosen()
        for name, begin, end, kept in self.ranges():
            if choice and not kept:
                choices[name] = choice
            if self.residual is not None and (not kept or self._given_back):
                residuals[name] = self.residual[begin:end].clone()
            if self._velocity is not None:
                velocities[name] = self._velocity[begin:end].clone()

    def retire(self):
        """Hands residual and velocity back to the store."""
        self._keep_choice()
        self.copy_to(self._store.residuals, self._store.velocities, self._store.choices)

    def _clip(self, gradient, method, ranks):
        """The L2 norm of all ranks' gradients together is at most clip_norm. As in the library, what is not finite
        clips nothing."""
        norm = method.input_scale * torch.linalg.vector_norm(gradient, dtype=accumulate_type(gradient.dtype)).item()
        most = method.clip_norm / math.sqrt(ranks)
        if most < norm < math.inf:
            gradient.mul_(most / norm)

    def _run_dense(self, buffer, method, group, communicator, unused):
        if method.clip_norm:
            self._clip(buffer, method, communicator.size)
        if method.momentum:
            torch.mul(self._moved(buffer, method, unused), method.output_scale, out=buffer)
        total = buffer
        if self.residual is not None:  # nothing stays behind where there is no selection any more
            self.residual, self._along = None, self.residual
            if unused:
                self.residual = torch.zeros_like(self._along)
            for begin, end in unused:
                self.residual[begin:end] = self._along[begin:end]
                self._along[begin:end] = 0
            # Half precision may hold the average, and not what goes into it.
            total = buffer.to(self._along.dtype).add_(self._along, alpha=method.output_scale)

        # No function of its own: an error would hold the group by it.
        average = functools.partial(_average, total, group, communicator)
        if method.preset == "auto" and self.choice is None and not all(self.kept) and 0 < self.dense_steps <= _TIMED:
            complete(communicator, dist.barrier, group=group)  # a late rank plays no part in the time
            self.dense_times.append(max(nanoseconds(average), 1))
        else:
            average()
        if total is not buffer:
            buffer.copy_(total)
        if method.raises and not _all_finite(buffer):
            self.give_back(1.0)
            raise NonFinite(f"the average of bucket {self.index} has NaN or Inf")
        self.dense_steps += 1

    def _moved(self, gradient, method, unused):
        """What goes out instead of the gradient: with SGD's momentum in it, in unscaled units. As in reducers, velocity
        is this rank's own, so that a parameter may get another plan, and it is 0 where it would be NaN or Inf; what
        goes out has NaN there."""
        before = self.velocity()
        velocity = torch.mul(before, method.momentum, out=self._spare).add_(gradient, alpha=method.input_scale)
        wrong = None if _all_finite(velocity) else ~torch.isfinite(velocity)
        if wrong is not None:
            velocity.masked_fill_(wrong, 0)
        moved = velocity
        if method.nesterov:
            moved = (velocity * method.momentum).add_(gradient, alpha=method.input_scale)
        elif unused:
            moved = velocity.clone()
        for begin, end in unused:
            velocity[begin:end] = before[begin:end]
            moved[begin:end] = 0
        self._velocity, self._velocity_before, self._spare = velocity, before, None
        return moved if wrong is None else moved.masked_fill(wrong, float("nan"))

    def _run_sparse(self, buffer, method):
        with self._without_unused():
            self.reducer.set_scales(method.input_scale, method.output_scale)
            self.reducer.run(buffer)

    def give_back(self, factor):
        if self._velocity_before is not None:
            self._velocity, self._spare, self._velocity_before = self._velocity_before, self._velocity, None
        if self._along is not None:
            self.residual = self._along if self.residual is None else self.residual + self._along
        elif self.reducer is not None and self.buffer is not None:
            with self._without_unused():  # what is in the buffer there was not exchanged
                self.reducer.give_back(self.buffer, factor)
            self._given_back = True
        self.forget_step()

    def leave_step(self):
        """No optimiser steps: gives back what can be given back."""
        with contextlib.suppress(Unsupported):  # averages of those that contribute cannot
            self.give_back(1.0)
        self.forget_step()

    def stats(self, method, ranks) -> BucketStats:
        ring = round(2 * (ranks - 1) / ranks * self.n * torch.empty(0, dtype=self.dtype).element_size())
        milliseconds = 1000 * self.seconds
        if self.reducer is None:
            if method.preset == "dense" or all(self.kept):
                reason = "kept dense"
            elif self.choice == "dense":
                reason = self.reason
            elif method.preset == "auto" and self.dense_steps <= _TIMED + 1:
                reason = f"dense while auto times it, {_TIMED} steps"
            else:
                reason = f"dense until its parameters are the same for {method.warmup_steps} steps"
            return BucketStats(self.names, self.n, "dense", reason, 1.0, milliseconds, ring, ring, None)
        counters, info = self.reducer.stats(), self.reducer.info()
        reason = f"{info.selector} and {info.collective}, {self.reason if self.choice else info.reason}"
        plan, density = self.made
        return BucketStats(self.names, self.n, preset_of(info) if plan == "auto" else plan, reason, density,
                           milliseconds, counters.last_bytes_sent, ring, counters)


class Buckets:
    """All buckets of a model. One thread at a time."""

    def __init__(self, optimizers: Callable[[], Dict[str, Any]] = dict):
        """optimizers(): by parameter. It is asked where a step has overflowed: an optimiser may get further ones."""
        self.residuals: Dict[str, torch.Tensor] = {}  # of parameters that no bucket has, by name
        self.velocities: Dict[str, torch.Tensor] = {}
        self.choices: Dict[str, str] = {}  # auto's, of layouts before
        self.nothing_applied = False  # backward raises, so no optimiser steps
        self.step_refused = False  # likewise, and what its buckets have sent goes back at once
        self._optimizers = optimizers  # a loss scaler skips the step of each on its own
        self._current: Dict[Tuple[str, ...], Bucket] = {}

    def get(self, index, names, lengths, kept, dtype) -> Bucket:
        found = self._current.get(names)
        if found is None:
            # DDP has cut its buckets anew: what the old ones hold goes to where their parameters are now.
            for other in [each for each in self._current.values() if not set(names).isdisjoint(each.names)]:
                other.retire()
                del self._current[other.names]
            found = self._current[names] = Bucket(index, names, lengths, kept, dtype, self)
        return found

    def begin_step(self):
        self.step_refused = False
        for bucket in self._current.values():
            bucket.forget_step()

    def refuse_step(self, undo):
        """A bucket's sum is NonFinite. undo: settle undoes the step."""
        self.nothing_applied, self.step_refused = undo, not undo
        for bucket in self._current.values() if self.step_refused else ():
            bucket.leave_step()

    def overflowed(self) -> Set[Any]:
        """Optimisers whose latest step a loss scaler has skipped: NaN and Inf arrive at all ranks alike. Parameters of
        no known optimiser belong together."""
        names = {name for bucket in self._current.values()
                 for name in (bucket.names if self.nothing_applied else bucket.overflowed)}
        known = self._optimizers() if names else {}
        return {known.get(name, self) for name in names}

    def settle(self, skipped: Set[Any]):
        """Undoes the latest step of parameters whose optimiser has skipped it."""
        known = self._optimizers() if skipped else {}
        for bucket in self._current.values():
            bucket.undo({name for name in bucket.names if known.get(name, self) in skipped})
            bucket.overflowed = set()
        self.nothing_applied = False

    def all(self) -> List[Bucket]:
        return sorted(self._current.values(), key=lambda bucket: bucket.index)

    def retire(self):
        for bucket in self.all():
            bucket.retire()
        self._current.clear()

    def snapshot(self):
        """Copies of (residuals, velocities, choices) of all parameters, by name."""
        residuals = {name: value.clone() for name, value in self.residuals.items()}
        velocities = {name: value.clone() for name, value in self.velocities.items()}
        choices = dict(self.choices)
        for bucket in self.all():
            bucket.copy_to(residuals, velocities, choices)
        return residuals, velocities, choices

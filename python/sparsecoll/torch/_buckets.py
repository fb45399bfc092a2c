# SPDX-License-Identifier: Apache-2.0
"""The buckets that DDP hands out, each with its reducer, residual and velocity; and what waits for the next layout."""
from __future__ import annotations

import dataclasses
import time
from typing import Dict, List, Optional, Tuple

import torch
import torch.distributed as dist

from .._errors import InvalidArgument, NonFinite
from .._reducer import Reducer, Segment
from .._stats import Stats


@dataclasses.dataclass(frozen=True)
class BucketStats:
    """What a bucket of the latest step sends, and how. Times and sizes are those of its latest step on this rank."""

    parameters: Tuple[str, ...]
    elements: int
    plan: str  # "dense" through the process group, or the preset
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
    undo: bool = False  # steps with NaN or Inf

    def adjusted(self, params):
        """Momentum is that of `velocity`, which goes along into another layout, never the reducer's, preset or not."""
        params.momentum = 0
        if self.adjust is not None:
            self.adjust(params)
        if params.momentum:
            raise InvalidArgument("adjust sets momentum: sparsecoll.torch.attach takes it from the optimiser")

    @property
    def per_tensor(self):
        """Top-k of each tensor on its own does not depend on which bucket it is in, so that another layout has the same
        bits; other selectors cannot do it."""
        return self.preset == "topka"


def accumulate_type(dtype):
    return torch.float64 if dtype == torch.float64 else torch.float32


class Bucket:
    """Some parameters whose gradients arrive as one vector."""

    def __init__(self, index, names, lengths, kept, dtype, store):
        self.index, self.names, self.lengths, self.kept, self.dtype = index, names, lengths, kept, dtype
        self.n = sum(lengths)
        self.steps = 0  # in a row, without a reducer
        self.reducer: Optional[Reducer] = None
        self.residual: Optional[torch.Tensor] = None
        self.density = 1.0
        self.buffer: Optional[torch.Tensor] = None  # of the latest step
        self.seconds = 0.0
        self._store = store
        self._velocity: Optional[torch.Tensor] = None
        self._before = None  # residual and velocity before the latest step, where it may be undone
        self.overflowed = False

    def ranges(self):
        """(name, begin, end, kept dense) of each parameter."""
        at = 0
        for name, length, kept in zip(self.names, self.lengths, self.kept):
            yield name, at, at + length, kept
            at += length

    def exchange(self, buffer, method: Method, group, communicator, ready):
        """Replaces buffer by the ranks' average, of which the optimiser's momentum is a part where method has it."""
        begin = time.perf_counter()
        self.buffer = buffer
        sparse = method.preset != "dense" and not all(self.kept)
        if self.reducer is not None and self.density != method.density:
            self.close_reducer()
        if self.reducer is None and sparse and (ready or self.steps >= method.warmup_steps):
            self._make_reducer(method, communicator)
        if method.undo:
            if method.momentum:
                self.velocity()
            self._before = [None if each is None else each.clone() for each in (self.residual, self._velocity)]
        try:
            if self.reducer is None:
                self._run_dense(buffer, method, group, communicator.size)
            else:
                self._run_sparse(buffer, method)
        except NonFinite:
            self.overflowed = method.undo
            raise
        self.steps += 1
        self.overflowed = method.undo and not torch.isfinite(buffer).all()
        self.seconds = time.perf_counter() - begin

    def _make_reducer(self, method, communicator):
        if self.residual is None:
            self.residual = self._take(self._store.residuals)
        density = method.density if method.per_tensor else 0.0
        segments = [Segment(length, 0.0 if kept else density, kept) for length, kept in zip(self.lengths, self.kept)]
        self.density = method.density
        self.reducer = Reducer(communicator, self.n, self.dtype, preset=method.preset, density=method.density, op="avg",
                               segments=segments, residual=self.residual, tag=self.index, adjust=method.adjusted)

    def undo(self):
        """Residual and velocity are again as before the latest step, with a new reducer, which has seen none of it."""
        self.overflowed = False
        if self._before is None:
            return
        self.close_reducer()
        self.residual, self._velocity = self._before
        self._before = None

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

    def copy_to(self, residuals: Dict[str, torch.Tensor], velocities: Dict[str, torch.Tensor]):
        """Copies of what it holds of each parameter, by name."""
        for name, begin, end, kept in self.ranges():
            if self.residual is not None and not kept:
                residuals[name] = self.residual[begin:end].clone()
            if self._velocity is not None:
                velocities[name] = self._velocity[begin:end].clone()

    def retire(self):
        """Hands residual and velocity back to the store."""
        self.close_reducer()
        self.copy_to(self._store.residuals, self._store.velocities)

    def _run_dense(self, buffer, method, group, ranks):
        if method.momentum:
            torch.mul(self._moved(buffer, method), method.output_scale, out=buffer)
        # As DDP does: what half precision can hold of each rank's may be too much for their sum.
        buffer.div_(ranks)
        dist.all_reduce(buffer, group=group)

    def _moved(self, gradient, method):
        """What goes out instead of the gradient: with SGD's momentum in it, in unscaled units. The velocity is this
        rank's own in every plan, so that a parameter may get another plan. It keeps no NaN or Inf; what goes out has
        NaN there."""
        velocity, finite = self.velocity(), torch.isfinite(gradient)
        wrong = None if finite.all() else ~finite
        if wrong is not None:
            gradient = gradient.masked_fill(wrong, 0)
        velocity.mul_(method.momentum).add_(gradient, alpha=method.input_scale)
        moved = velocity
        if method.nesterov:
            moved = torch.add(gradient * method.input_scale, velocity, alpha=method.momentum)
        return moved if wrong is None else moved.masked_fill(wrong, float("nan"))

    def _run_sparse(self, buffer, method):
        if not method.momentum:
            self.reducer.set_scales(method.input_scale, method.output_scale)
            self.reducer.run(buffer)
            return
        moved = self._moved(buffer, method)
        self.reducer.set_scales(1.0, method.output_scale)
        self.reducer.run(moved, out=buffer)
        # What has left the residual takes its velocity along (Lin et al. 2018: momentum factor masking).
        for _, begin, end, kept in self.ranges():
            if not kept:
                self.velocity()[begin:end].masked_fill_(self.residual[begin:end] == 0, 0)

    def give_back(self, factor):
        if self.reducer is not None and self.buffer is not None:
            self.reducer.give_back(self.buffer, factor)

    def stats(self, method, ranks) -> BucketStats:
        ring = round(2 * (ranks - 1) / ranks * self.n * torch.empty(0, dtype=self.dtype).element_size())
        milliseconds = 1000 * self.seconds
        if self.reducer is None:
            if method.preset == "dense" or all(self.kept):
                reason = "kept dense"
            else:
                reason = f"dense until its parameters are the same for {method.warmup_steps} steps"
            return BucketStats(self.names, self.n, "dense", reason, 1.0, milliseconds, ring, ring, None)
        counters, info = self.reducer.stats(), self.reducer.info()
        reason = f"{info.selector} and {info.collective}, {info.reason}"
        return BucketStats(self.names, self.n, method.preset, reason, self.density, milliseconds,
                           counters.last_bytes_sent, ring, counters)


class Buckets:
    """All buckets of a model. One thread at a time."""

    def __init__(self):
        self.residuals: Dict[str, torch.Tensor] = {}  # of parameters that no bucket has, by name
        self.velocities: Dict[str, torch.Tensor] = {}
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

    def settle(self):
        """Undoes the latest step where a loss scaler has skipped it: NaN and Inf arrive at all ranks alike."""
        if any(bucket.overflowed for bucket in self._current.values()):
            for bucket in self._current.values():
                bucket.undo()

    def all(self) -> List[Bucket]:
        return sorted(self._current.values(), key=lambda bucket: bucket.index)

    def retire(self):
        for bucket in self.all():
            bucket.retire()
        self._current.clear()

    def snapshot(self):
        """Copies of (residuals, velocities) of all parameters, by name."""
        residuals = {name: value.clone() for name, value in self.residuals.items()}
        velocities = {name: value.clone() for name, value in self.velocities.items()}
        for bucket in self.all():
            bucket.copy_to(residuals, velocities)
        return residuals, velocities

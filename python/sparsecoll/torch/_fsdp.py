# SPDX-License-Identifier: Apache-2.0
"""Sparse averages between replicas of a model that FSDP2 shards."""
from __future__ import annotations

import functools
import math
import weakref
from typing import Any, Callable, Dict, Optional, Tuple

import torch
import torch.distributed as dist

from .._communicator import Communicator, Config
from .._errors import Aborted, InvalidArgument, InvalidUsage, NonFinite, Unsupported
from .._reducer import Reducer
from .._stats import Stats
from ._buckets import accumulate_type
from ._gather import agree, gatherer, waits_as
from ._hook_state import HookState
from ._state import check_floats
from ._worker import Worker

_FORM = "fsdp 2"
_states: "weakref.WeakKeyDictionary" = weakref.WeakKeyDictionary()  # by module that fully_shard was called on


def _sharded_modules(module):
    """The modules inside `module` that fully_shard was called on, by name."""
    if tuple(int(part) for part in torch.__version__.split(".")[:2]) < (2, 6):
        raise Unsupported(f"PyTorch {torch.__version__} has no FSDP2: 2.6 or later does")
    from torch.distributed.fsdp import FSDPModule

    found = {name: each for name, each in module.named_modules() if isinstance(each, FSDPModule)}
    if not found:
        raise InvalidArgument(f"{type(module).__name__} has no module that fully_shard was called on")
    for name, parameter in module.named_parameters():
        mesh = getattr(parameter, "device_mesh", None)
        if mesh is not None and mesh.ndim > 1:
            raise Unsupported(f"{name} lies on a mesh of {mesh.ndim} dimensions (HSDP), where FSDP sums gradients of "
                              "replicas densely before any hook: call fully_shard with a mesh of the shards alone")
        if parameter.device.type != "cpu":
            raise Unsupported(f"{name} is on {parameter.device}; this hook takes parameters in host memory only")
    return found


def _shards(modules):
    """By name of a module: the parameters that FSDP reduces with it, each with the elements of its shard as FSDP sends
    it, which are as many on all ranks."""
    def group(each):  # several modules of one call of fully_shard have one
        return getattr(each, "_get_fsdp_state", lambda: each)()

    taken, shards = set(), {id(group(each)): [] for each in modules.values()}
    for each in sorted(modules.values(), key=lambda module: sum(1 for _ in module.modules())):  # the inner ones first
        for parameter in each.parameters():
            if parameter not in taken and hasattr(parameter, "device_mesh"):
                taken.add(parameter)
                sizes = list(parameter.shape)
                dimension = parameter.placements[0].dim
                sizes[dimension] = -(-sizes[dimension] // parameter.device_mesh.size())
                shards[id(group(each))].append((parameter, math.prod(sizes)))
    return {name: shards[id(group(each))] for name, each in modules.items()}


def _has_hook(module):
    """Whether set_all_reduce_hook was called on it, other than by a state that is closed by now."""
    state = module._get_fsdp_state()
    groups = getattr(state, "_fsdp_param_groups", None)
    if groups is None:  # before 2.11
        groups = [getattr(state, "_fsdp_param_group", None)]
    hooks = [getattr(group, "_all_reduce_hook", None) for group in groups]
    return any(each is not None and not isinstance(getattr(getattr(each, "func", None), "__self__", None), FSDPState)
               for each in hooks)


class FSDPState(HookState):
    """What the hook of fsdp_hook keeps: a reducer and a residual for each module that fully_shard was called on."""

    def __init__(self, module: Any, replicate_group: Any, density: float, preset: str, error_feedback: bool,
                 adjust: Optional[Callable[[Any], None]], config: Optional[Config]):
        self._worker = self._communicator = None
        modules = _sharded_modules(module)
        for name, each in modules.items():
            before = _states[each]() if each in _states else None
            if before is not None and before._worker is not None:
                raise InvalidUsage(f"{name or 'the model'} has a state already; FSDP takes one hook")
        taken = sorted(name for name, each in modules.items() if _has_hook(each))
        rank, ranks = dist.get_rank(replicate_group), dist.get_world_size(replicate_group)
        gather = gatherer(replicate_group, ranks)
        agree(gather, modules=sorted(modules), density=density, preset=preset, error_feedback=error_feedback,
              hook=taken)
        if taken:
            raise InvalidUsage(f"{', '.join(name or 'the model' for name in taken)} has an all-reduce hook already, "
                               "and FSDP takes one: set_all_reduce_hook(None) removes it")
        self._options = dict(preset=preset, density=density, op="avg", error_feedback=error_feedback, adjust=adjust)
        self._tags = {name: tag for tag, name in enumerate(modules)}
        self._reducers: Dict[str, Reducer] = {}
        self._residuals: Dict[str, torch.Tensor] = {}
        self._shards = _shards(modules)
        self._places = {name: (mesh.get_local_rank(), mesh.size()) for name, shard in self._shards.items()
                        for mesh in [parameter.device_mesh for parameter, _ in shard[:1]]}
        self._trained: Dict[str, Tuple[bool, ...]] = {}  # which parameters of a module its residual is of
        self.error: Optional[BaseException] = None  # what ended the exchange
        config = waits_as(dist.group.WORLD if replicate_group is None else replicate_group, config)
        self._communicator = Communicator.from_all_gather(rank, ranks, gather, config=config)
        self._worker = Worker("sparsecoll")
        hooked = []
        try:
            for name, each in modules.items():
                each.set_all_reduce_hook(functools.partial(self._average, name))
                hooked.append(each)
        except BaseException:
            for each in hooked:
                each.set_all_reduce_hook(None)
            self.close()
            raise
        for each in hooked:
            _states[each] = weakref.ref(self)

    @property
    def communicator(self) -> Communicator:
        """Of the replicas."""
        return self._communicator

    def _average(self, name, shard):
        """shard, this rank's part of the gradients of a module, becomes the average of all replicas."""
        if self.error is not None:
            raise self.error
        try:  # by a thread, so that Ctrl-C ends the wait for other ranks
            self._check_shard(name, shard)
            self._call(lambda: self._reducer(name, shard).run(shard))
        except BaseException as error:
            if self.error is None and not isinstance(error, NonFinite):  # which all ranks get, and may go on
                self.error = error if isinstance(error, Exception) else Aborted(f"{type(error).__name__} in a step")
                self._communicator.abort()
            raise

    def _check_shard(self, name, shard):
        """FSDP leaves out parameters without a gradient and does not tell which: an entry would meet the residual of
        another parameter. Only a shard as long as all of them together can be but one thing."""
        trained = tuple(parameter.requires_grad for parameter, _ in self._shards[name])
        whole = sum(length for (_, length), wanted in zip(self._shards[name], trained) if wanted)
        if shard.numel() != whole:
            raise Unsupported(f"{name or 'the model'}: a backward pass gave gradients to {shard.numel()} of {whole} "
                              "elements of its shard, and this hook averages all of a module or none: call fully_shard "
                              "on each part that some steps do not use, and freeze what no step uses")
        if self._trained.setdefault(name, trained) != trained:
            raise Unsupported(f"{name or 'the model'}: other parameters are frozen than in its first step: load a "
                              "state_dict without its residual, or make a new state")

    def _reducer(self, name, shard):
        if name not in self._reducers:
            options = dict(self._options)
            if options["error_feedback"]:
                kind = accumulate_type(shard.dtype)
                kept = self._residuals[name] = self._residuals.get(name, torch.zeros(shard.numel())).to(kind)
                if kept.numel() != shard.numel():
                    raise InvalidArgument(f"the state has {kept.numel()} elements of {name or 'the model'}, whose "
                                          f"shard has {shard.numel()}")
                options["residual"] = kept
            self._reducers[name] = Reducer(self._communicator, shard.numel(), shard.dtype, tag=self._tags[name],
                                           **options)
        return self._reducers[name]

    def stats(self) -> Dict[str, Stats]:
        """Counters of the modules that had a step, by name."""
        return {name: reducer.stats() for name, reducer in self._reducers.items()}

    def state_dict(self) -> Dict[str, Any]:
        """What this rank has not sent yet, by module, for as many shards and replicas; every rank saves its own."""
        if self._worker is None:
            raise InvalidUsage("the state is closed")
        residuals = {name: value.clone() for name, value in self._residuals.items()}
        return {"form": _FORM, "rank": self._communicator.rank, "ranks": self._communicator.size,
                "shards": self._places, "residuals": residuals}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        """Goes on from state_dict of the same rank. On every rank before the same step.
        Errors: InvalidArgument; then nothing has changed."""
        here = (_FORM, self._communicator.rank, self._communicator.size)
        if (state.get("form"), state.get("rank"), state.get("ranks")) != here:
            raise InvalidArgument(f"this is no state of rank {here[1]} of {here[2]} replicas: every rank loads its own")
        if state["shards"] != self._places:
            raise InvalidArgument(f"the state is of shards {state['shards']} (rank and ranks by module), and this rank "
                                  f"has {self._places}: every rank loads its own")
        unknown = set(state["residuals"]) - set(self._tags)
        if unknown:
            raise InvalidArgument(f"the state has residuals of {sorted(unknown)}, which the model has not")
        for name, value in state["residuals"].items():
            check_floats(f"residuals of {name or 'the model'}", value)
        self._drop_reducers()
        self._trained.clear()
        self._residuals = {name: value.detach().clone() for name, value in state["residuals"].items()}

    def _drop_reducers(self):
        for reducer in self._reducers.values():
            reducer.close()
        self._reducers.clear()

    def __reduce__(self):
        raise TypeError("an FSDPState has connections to other ranks, which cannot be saved: save its state_dict()")


def fsdp_hook(module: Any, replicate_group: Any, density: float = 0.01, preset: str = "topka", *,
              error_feedback: bool = True, adjust: Optional[Callable[[Any], None]] = None,
              config: Optional[Config] = None) -> FSDPState:
    """Averages the gradients of a model's replicas sparsely, where FSDP2 shards each replica. Collective.

        shards = init_device_mesh("cpu", (replicas, shards), mesh_dim_names=("replicate", "shard"))
        fully_shard(model, mesh=mesh["shard"])
        state = sct.fsdp_hook(model, mesh["replicate"].get_group(), density=0.01)

    module: fully_shard was called on it or on modules inside, with meshes of one dimension, and it has the same
    parameters on all replicas. replicate_group: the ranks that have the same shard. Each entry is sent or kept whatever
    tensor it is of. The rest as for DDPState. A backward pass gives gradients to all trained parameters that
    fully_shard put together, or to none of them: else it ends with Unsupported.

    Errors: Unsupported (PyTorch before 2.6, HSDP of FSDP's own, parameters on a GPU), InvalidUsage (there is a state or
    an all-reduce hook already), InvalidArgument, Mismatch, those of Communicator; ValueError (PyTorch's: a module with
    several groups of parameters).
    """
    return FSDPState(module, replicate_group, density, preset, error_feedback, adjust, config)

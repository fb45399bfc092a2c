# SPDX-License-Identifier: Apache-2.0
"""The communication hook of DistributedDataParallel."""
import atexit
import contextlib
import datetime
import functools
import gc
import threading
import traceback
import weakref
from typing import Any, Callable, Dict, List, Optional, Sequence, Set, Union

import torch
import torch.distributed as dist

from .._arrays import TYPES
from .._communicator import Communicator, Config
from .._errors import Aborted, InvalidArgument, InvalidUsage, Mismatch, NonFinite, Unsupported
from .._reducer import presets
from ._buckets import Buckets, BucketStats, Method
from ._gather import agree, agree_on_group, gatherer, waits_as
from ._hook_state import HookState
from ._layout import Layout
from ._state import check_floats, chosen, dense_steps_left
from ._worker import Worker

_FORM = 3  # of state_dict
_LONGEST = 1e9  # seconds, about what PyTorch's clocks can hold
_NO_SYNC_USES = not torch.__version__.startswith("1.")  # DDP counts what a backward pass within no_sync has used
_SHARDED = {"FullyShardedDataParallel", "FSDPModule"}
_states: "weakref.WeakKeyDictionary" = weakref.WeakKeyDictionary()  # by model
_settling = threading.Lock()  # held where states are listed
_untraced = getattr(torch, "_disable_dynamo", lambda function: function)  # where a whole step is compiled


def small_or_1d(name: str, parameter: torch.Tensor) -> bool:
    """Which parameters are sent dense by default: biases, norms, and whatever has less than 1024 elements."""
    del name
    return parameter.dim() <= 1 or parameter.numel() < 1024


def _family(state):
    """The states that share optimisers with this one, directly or by others. A loss scaler skips an optimiser's step
    where a gradient of any of its parameters overflows, whichever model that is of."""
    alive = [each() for each in _states.values()]
    family, found = [], [state]
    while found:
        family += found
        optimizers = {optimizer for each in family for optimizer in each._optimizers}
        found = [each for each in alive if each is not None and each not in family
                 and not optimizers.isdisjoint(each._optimizers)]
    return family


def _settle(state):
    """Undoes what a loss scaler has skipped of the latest steps, once for all states that share its optimisers: when
    one of them begins another step, since models may have their backward passes one after the other."""
    with _settling:
        if not state._ended_step:
            return
        ended = [each for each in _family(state) if each._ended_step]
        skipped = set().union(*(each._buckets.overflowed() for each in ended))
        for each in ended:
            each._ended_step = False
            each._buckets.settle(skipped)


def _optimizers_by_name(names, optimizers):
    return {names[parameter]: optimizer for optimizer in optimizers for group in optimizer.param_groups
            for parameter in group["params"] if parameter in names}


def averaged(ddp):
    """(name, parameter) of all that the DDP object averages gradients of."""
    ignored = set(getattr(ddp, "parameters_to_ignore", None) or ())
    return [(name, parameter) for name, parameter in ddp.module.named_parameters()
            if parameter.requires_grad and name not in ignored]


def _check_model(ddp):
    """Names what this hook cannot do before anything waits for other ranks."""
    if _SHARDED & {base.__name__ for base in type(ddp).__mro__}:
        raise Unsupported(f"{type(ddp).__name__}: FSDP shards parameters and reduces gradients itself, between "
                          "replicas too (HYBRID_SHARD, HSDP); fsdp_hook is for FSDP2")
    if not hasattr(ddp, "register_comm_hook"):
        raise InvalidArgument(f"{type(ddp).__name__} is no DistributedDataParallel")
    if getattr(ddp, "_use_python_reducer", False):
        raise Unsupported("the python_reducer of torch.compile has other buckets than DDP's own reducer: leave "
                          "torch._dynamo.config.optimize_ddp as it is, and do without compiled autograd")
    if getattr(ddp, "skip_all_reduce_unused_params", False):
        raise Unsupported("with skip_all_reduce_unused_params DDP hands out some of its buckets only")
    for name, parameter in averaged(ddp):
        if parameter.device.type != "cpu":
            raise Unsupported(f"{name} is on {parameter.device}; this hook takes parameters in host memory only")
        if str(parameter.dtype).rpartition(".")[2] not in TYPES:
            raise Unsupported(f"{name} is of {parameter.dtype}, and this hook takes {', '.join(TYPES)}: cast it, or "
                              "make a complex one of real numbers by torch.view_as_complex")
    for name, module in ddp.module.named_modules():
        if isinstance(module, (torch.nn.Embedding, torch.nn.EmbeddingBag)) and module.sparse:
            raise Unsupported(f"{name or type(module).__name__} has sparse gradients, which DDP gathers without "
                              "buckets: make it with sparse=False")


class DDPState(HookState):
    """What `hook` keeps between steps. Collective: every rank makes it, with equal arguments, behind the DDP object.

    ddp: the DistributedDataParallel object, with parameters in host memory. density: of what the preset counts, in
    (0, 1]; for "topka" of every tensor. preset: a name of sparsecoll.presets(); or "auto", which finds out for every
    bucket whether topka, sparcml-split or a dense sum by the process group is the fastest, as stats then says. Trials
    are steps like others, and a late rank plays no part in them. group: a process group of ddp's ranks that nothing
    else uses; None: one is made with gloo, which all processes of the job take part in. warmup_steps: a bucket is sent
    dense, by that group, until its parameters have been the same for so many steps, with "auto" for at least four; DDP
    cuts its buckets anew after the first one. keep_dense(name, parameter): which parameters are always sent dense.
    density_schedule, schedule_steps: densities of the first steps, so many steps each. optimizers: those that step
    ddp's parameters; a loss scaler needs them here if there are several, or one has parameters of other models. adjust
    may set every other field of sparsecollParams_t; its clipNorm counts for each bucket. config: of the communicator;
    without an op_timeout ranks wait as long as in `group`, or in ddp's if that is None.

    Errors, all as exceptions of sparsecoll: InvalidArgument, Unsupported (parameters on a GPU, sparse gradients, FSDP),
    InvalidUsage (ddp has a state or hook already), Mismatch (ranks have different arguments or name different groups);
    those of Communicator. An error in a step ends the backward pass with a RuntimeError that has its text; `error` is
    then the exception itself, and ranks in it count as in `group`. Ctrl-C ends a backward pass that waits for other
    ranks, and tells them; elsewhere close does, and the end of the process.
    Threads: a thread of the state's sends buckets in DDP's order while backward goes on. Call methods between steps.
    Change a model's memory format before DDP wraps it.
    """

    def __init__(self, ddp: Any, density: float = 0.01, preset: str = "auto", *, group: Any = None,
                 warmup_steps: int = 2, keep_dense: Callable[[str, torch.Tensor], bool] = small_or_1d,
                 density_schedule: Sequence[float] = (), schedule_steps: int = 0,
                 optimizers: Sequence[torch.optim.Optimizer] = (),
                 adjust: Optional[Callable[[Any], None]] = None, config: Optional[Config] = None):
        self._worker = self._communicator = None
        ddp = getattr(ddp, "_orig_mod", ddp)  # of torch.compile
        _check_model(ddp)
        before = _states[ddp]() if ddp in _states else None
        if before is not None and before._worker is not None:
            raise InvalidUsage("this DistributedDataParallel has a state already; PyTorch takes one hook")
        has_hook = bool(ddp._get_ddp_logging_data().get("comm_hook"))
        self._ddp = weakref.ref(ddp)
        self._names: Dict[torch.Tensor, str] = {parameter: name for name, parameter in averaged(ddp)}
        self._kept = {name: bool(keep_dense(name, parameter)) for parameter, name in self._names.items()}
        self._layouts = {name: Layout(parameter) for parameter, name in self._names.items()}
        self._types = {name: parameter.dtype for parameter, name in self._names.items()}
        self._views = bool(getattr(ddp, "gradient_as_bucket_view", False))
        self._method = Method(preset, density, warmup_steps, adjust)
        self._method.static_graph = bool(getattr(ddp, "static_graph", False))
        self._drops_unused = self._method.static_graph or bool(getattr(ddp, "find_unused_parameters", False))
        self._used: Set[str] = set()  # parameters that got a gradient since they were exchanged
        self._density = density
        self._schedule, self._schedule_steps = tuple(density_schedule), schedule_steps
        if preset not in ("auto", *presets()):
            raise InvalidArgument(f"no preset {preset!r}; there are auto, {', '.join(presets())}")
        for each in (density, *self._schedule):
            if not 0 < each <= 1:
                raise InvalidArgument(f"a density of {each}")
        if self._schedule and schedule_steps < 1:
            raise InvalidArgument("density_schedule without schedule_steps")
        self._own_group = group is None
        agree_on_group(ddp.process_group, group)
        config = waits_as(ddp.process_group if group is None else group, config)
        if group is None:
            if dist.get_world_size(ddp.process_group) != dist.get_world_size():
                raise Unsupported("ddp has a group of some ranks only: give `group`, a process group of these ranks "
                                  "that nothing else uses")
            longest = datetime.timedelta(seconds=min(config.op_timeout, _LONGEST))
            group = dist.new_group(backend="gloo", timeout=longest)
        elif dist.get_world_size(group) != dist.get_world_size(ddp.process_group):
            raise InvalidArgument(f"group has {dist.get_world_size(group)} ranks, and that of ddp "
                                  f"{dist.get_world_size(ddp.process_group)}")
        self._group = group
        self._method.raises = config.non_finite == "error"
        self._optimizers = tuple(optimizers)
        self._buckets = Buckets(functools.partial(_optimizers_by_name, self._names, self._optimizers))
        self._within_step = False  # a backward pass has begun
        self._ended_step = False  # a backward pass has ended, and what a loss scaler may skip of it was not undone
        self._warm_from = None  # the last dense step at first, of a state that was loaded
        self._left_join: Any = None  # what ddp still has of a join() that has ended
        self._before_step: Optional[Callable[[], None]] = None
        self.step = 0  # backward passes that were exchanged
        self.error: Optional[Exception] = None  # what ended the exchange
        rank, ranks = dist.get_rank(group), dist.get_world_size(group)
        self._gather = gatherer(group, ranks)
        try:
            failed = self._read_adjust()
            # Ranks that differ here would wait for each other in different exchanges.
            try:
                agree(self._gather, preset=preset, density=density, warmup_steps=warmup_steps, keep_dense=self._kept,
                      density_schedule=self._schedule, schedule_steps=schedule_steps, hook=has_hook,
                      adjust=(failed is None, self._method.clip_norm))
            except Mismatch as error:
                raise failed or error
            if failed is not None:
                raise failed
            if has_hook:
                raise InvalidUsage("this DistributedDataParallel has a hook already, and PyTorch takes one")
            self._communicator = Communicator.from_all_gather(rank, ranks, self._gather, config=config)
            self._gather = gatherer(group, ranks, self._communicator)
        except BaseException:
            self._leave_group()
            raise
        self._worker = Worker("sparsecoll")
        marks = [parameter.register_hook(functools.partial(_mark, weakref.ref(ddp), self._used, name))
                 for parameter, name in self._names.items()] if self._drops_unused else []
        self._unmark = weakref.finalize(self, _remove, marks)
        with _settling:
            _states[ddp] = weakref.ref(self)

    @property
    def communicator(self) -> Communicator:
        """What the buckets are sent over. The state's thread uses it during backward."""
        return self._communicator

    def _read_adjust(self):
        try:
            self._method.read_adjust()
            return None
        except Exception as error:  # pylint: disable=broad-except  (raised once the other ranks know)
            return error

    def _take(self, bucket) -> "torch.futures.Future":
        """A bucket of DDP's: the future has its average."""
        if self.error is not None:
            raise self.error
        if bucket.index() == 0:
            self._within_step = True
            self._check_join()
            if self._before_step is not None:
                self._before_step()
            self._worker.post(self._start_step)
        parameters = bucket.parameters()
        try:
            names = tuple(self._names[parameter] for parameter in parameters)
        except KeyError:
            raise InvalidUsage("a parameter that the model did not have when the state was made") from None
        buffer, outcome = bucket.buffer(), []
        lengths = [parameter.numel() for parameter in parameters]
        kept = [self._kept[name] for name in names]
        used = [name in self._used for name in names] if self._drops_unused else None
        self._used.difference_update(names)
        index, done = bucket.index(), threading.Event()

        def average(_):
            if outcome:
                raise outcome[0]
            return buffer

        arrived = torch.futures.Future()
        result = arrived.then(average)

        def exchange():
            leaves = False
            try:
                if self.error is not None:
                    raise self.error
                with torch.no_grad():
                    self._buckets.get(index, names, lengths, kept, buffer.dtype).exchange(
                        buffer, self._method, self._group, self._communicator, self._warmed_up(), used)
            except BaseException as error:  # pylint: disable=broad-except  (backward raises it)
                for each in (error, error.__cause__):
                    if each is not None:  # its frames name the group, whose threads are to end with close
                        traceback.clear_frames(each.__traceback__)
                if not isinstance(error, Exception):
                    error = Aborted(f"{type(error).__name__} in a step: {error}")
                leaves = self.error is None and not isinstance(error, NonFinite) and not hasattr(error, "under_way")
                outcome.append(error)
                self._failed(error)
            try:
                arrived.set_result(None)
            finally:
                done.set()
            if leaves:  # what others still wait for in the group ends so, once they have given it up
                self._leave_group()

        self._worker.post(exchange)
        if bucket.is_last():
            try:
                torch.autograd.Variable._execution_engine.queue_callback(
                    functools.partial(_wait, weakref.ref(self), done))
            except RuntimeError:  # no backward pass: a rank that is out of inputs, for which ddp.join() waits
                self._within_step, self._ended_step = False, True
        return result

    def _check_join(self):
        """A rank that is out of inputs sends zeros, and what it has kept. It knows no new loss scale."""
        ddp = self._ddp()
        if ddp is None or not ddp._join_config.enable or ddp._join_config is self._left_join:
            return
        reason = None
        if not ddp._divide_by_initial_world_size:
            reason = "ddp.join(divide_by_initial_world_size=False): this hook divides by all ranks"
        elif self._method.undo:
            reason = "ddp.join() with set_loss_scale: ranks that are out of inputs do not call it"
        if reason is not None and _joins(ddp):
            raise Unsupported(reason)
        if reason is not None:
            self._left_join = ddp._join_config

    def _abandon_step(self):
        if self._within_step:  # its last bucket will not come
            self._failed(Aborted("the state was closed within a step"))

    def _interrupted(self, error):
        self._failed(Aborted(f"{type(error).__name__} in a step"))

    def _start_step(self):
        self.step += 1
        try:
            _settle(self)
            self._buckets.begin_step()
        except Exception as error:  # pylint: disable=broad-except  (the buckets' exchanges raise it)
            self._failed(error)
        level = (self.step - 1) // self._schedule_steps if self._schedule else 0
        self._method.warms_up = level < len(self._schedule)
        self._method.density = self._schedule[level] if self._method.warms_up else self._density

    def _failed(self, error):
        """The other ranks must not wait for a rank that is not going on."""
        if isinstance(error, NonFinite) or self.error is not None:
            return
        self.error = error
        self._communicator.abort()

    def give_back(self, factor: float = 1.0) -> None:
        """The optimiser skips the latest step: what this rank has sent goes back into its residual, and is part of
        later steps. Call it on every rank before zero_grad. factor: what gradients were multiplied by since backward,
        1 / S where a loss scaler has divided them by S. Buckets that were sent dense have nothing to give back: their
        step is lost, as in plain DDP. Where set_loss_scale was called, a step that overflowed is undone without it, and
        this changes nothing then; nor does it a second time, or where backward has ended with NonFinite.
        """
        def give_back():
            _settle(self)
            for bucket in self._buckets.all():
                # A wrapper as fp16_compress_wrapper hands out a copy.
                views = self._views and bucket.dtype == self._types[bucket.names[0]]
                bucket.give_back(factor if views else 1.0)

        self._call(give_back)

    def set_loss_scale(self, scale: float) -> None:
        """The loss of the next steps is multiplied by `scale`, and the averages come multiplied by it, too; residuals
        stay in unscaled units. On every rank before the same step.

        From then on a step in which some gradient overflows leaves residuals and velocities as they were, which takes
        memory for a second one of each: as a loss scaler skips that step, the ranks forget its gradients, too.
        A scaler of several optimisers skips only those that overflow, and an optimiser of several models skips all of
        them: name `optimizers`, and the same is undone here. Call it on the states of all models before the step.
        """
        if not 0 < scale < float("inf"):
            raise InvalidArgument(f"a loss scale of {scale}")

        def change():
            _settle(self)
            self._method.input_scale, self._method.output_scale = 1 / scale, scale
            self._method.undo = True

        self._call(change)

    def stats(self) -> List[BucketStats]:
        """Of each bucket, in DDP's order."""
        return self._call(lambda: [bucket.stats(self._method, self._communicator.size)
                                   for bucket in self._buckets.all()])

    def state_dict(self) -> Dict[str, Any]:
        """What this rank has not sent yet, by parameter name, and what auto has chosen; every rank saves its own,
        beside model and optimiser.

        torch.distributed.checkpoint saves one rank's value of each key. So give it what torch.save makes of the state,
        as bytes, under a key that names the rank.
        """
        def copy():
            _settle(self)
            residuals, velocities, choices = self._buckets.snapshot()
            shaped = [{name: self._layouts[name].shaped(value) for name, value in kind.items()}
                      for kind in (residuals, velocities)]
            return {"form": _FORM, "step": self.step, "rank": self._communicator.rank, "ranks": self._communicator.size,
                    "density": self._density, "residuals": shaped[0], "velocities": shaped[1], "choices": choices,
                    "dense_steps_left": self._dense_steps_left()}

        return self._call(copy)

    def load_state_dict(self, state: Union[Dict[str, Any], Sequence[Dict[str, Any]]]) -> None:
        """Goes on from state_dict of the same rank; DDP may cut other buckets. Collective, before the same step.

        On another number of ranks: from the list of all ranks' states. Each is taken over by one rank, and multiplied
        so that the ranks' averages get from it what they would have got.

        Dense steps at first are those that were still to come, unless "auto" has not chosen. With "topka", and with "auto" where all
        buckets have chosen the same sparse method, training goes on with the same bits on as many ranks; other presets
        begin with new thresholds. Auto has trials again on another number of ranks or with another density. What the
        state has of parameters that are frozen now is dropped; before the first step a state without velocities leaves
        those that attach has taken from the optimiser. Errors: InvalidArgument (names what does not fit this rank),
        Mismatch (states of different steps or choices, or one that does not fit another rank), after which nothing has
        changed; others end the exchange.
        """
        if self._worker is None:
            raise InvalidUsage("the state is closed")
        failed, step, left, residuals, velocities, choices = None, 0, 0, {}, {}, {}
        try:
            state = self._without_frozen(state) if isinstance(state, dict) else list(map(self._without_frozen, state))
            step, residuals, velocities, choices = chosen(state, _FORM, self._communicator.rank,
                                                          self._communicator.size, self._density, self._check_values,
                                                          self._layouts)
            left = dense_steps_left(state)
        except Exception as error:  # pylint: disable=broad-except  (raised once the other ranks know)
            failed = error
        if self._method.preset != "auto":
            choices = {}

        def replace():
            if self.error is not None:
                raise self.error
            try:
                agree(self._gather, state=failed is None, step=step, dense_steps_left=left,
                      choices=sorted(choices.items()))
                if failed is not None:
                    raise failed
                _settle(self)
                self._buckets.retire()
            except Mismatch as error:  # all ranks are told, and what they have stays
                raise failed or error
            except Exception as error:
                if error is not failed:
                    self._failed(error)
                raise
            self._buckets.residuals = residuals
            if velocities or self.step != 0:
                self._buckets.velocities = velocities
            self._buckets.choices = choices
            self.step, self._warm_from = step, step + min(left, self._method.warmup_steps)

        self._call(replace)

    def _warmed_up(self):
        """Whether a state that was loaded is past its dense steps at first, whatever DDP's buckets are."""
        return self._warm_from is not None and self.step > self._warm_from

    def _dense_steps_left(self):
        if self._warm_from is not None:
            return max(0, self._warm_from - self.step)
        if self.step <= 1:  # DDP cuts other buckets after the first step
            return self._method.warmup_steps
        return max([0, *(self._method.warmup_steps - bucket.steps for bucket in self._buckets.all()
                         if bucket.reducer is None and not all(bucket.kept))])

    def _without_frozen(self, state):
        """The state without parameters that the model has and ddp does not average."""
        ddp = self._ddp()
        if ddp is None or not isinstance(state, dict):
            return state
        frozen = {name for name, _ in ddp.module.named_parameters()} - set(self._layouts)
        parts = {kind: {name: value for name, value in state[kind].items() if name not in frozen}
                 for kind in ("residuals", "velocities", "choices") if isinstance(state.get(kind), dict)}
        return {**state, **parts}

    def _check_values(self, state):
        for kind in ("residuals", "velocities"):
            for name, value in state[kind].items():
                if name not in self._layouts:
                    raise InvalidArgument(f"the state has {kind} of {name}, which the model has not")
                check_floats(f"{kind} of {name}", value)
                if value.shape != self._layouts[name].shape:
                    raise InvalidArgument(f"the state's {name} is {tuple(value.shape)}, the model's "
                                          f"{tuple(self._layouts[name].shape)}")
        for name, choice in state["choices"].items():
            if name not in self._layouts or choice not in presets():
                raise InvalidArgument(f"the state has {choice!r} chosen for {name}")
        if state["velocities"] and not self._method.momentum:
            raise InvalidArgument("the state has velocities; this one has no momentum: see sparsecoll.torch.attach")

    def _drop_reducers(self):
        self._unmark()
        for bucket in self._buckets.all():
            bucket.close_reducer()

    def _leave_group(self):
        group, self._group, self._gather = self._group, None, None  # whoever still holds this has no group's threads
        if self._own_group:
            _leave(group)

    def __del__(self):
        if getattr(self, "_worker", None) is not None and self._own_group:
            self._worker.post(functools.partial(_leave, self._group))
        super().__del__()

    def __reduce__(self):
        raise TypeError("a DDPState has connections to other ranks, which cannot be saved: save its state_dict()")


def _joins(ddp):
    """Whether it is within ddp.join(), which leaves its settings behind; what goes with the context is DDP's hook."""
    return any(type(each).__name__ == "_DDPJoinHook" and each.ddp is ddp for each in gc.get_objects())


def _mark(ddp, used, name, gradient):
    """DDP counts parameters as used likewise: backward arrives there with a gradient."""
    if gradient is not None and (_NO_SYNC_USES or getattr(ddp(), "require_backward_grad_sync", True)):
        used.add(name)


def _remove(marks):
    for mark in marks:
        mark.remove()


def _leave(group):
    with contextlib.suppress(Exception):  # the program may leave all of its groups at the same time
        if dist.is_initialized() and group in dist.distributed_c10d._pg_names:
            dist.destroy_process_group(group)


@atexit.register
def _end():
    """The process ends, maybe by Ctrl-C, and other ranks wait for it no longer than for one that says so."""
    for state in [each() for each in _states.values()]:
        if state is not None and state._worker is not None and state._worker.alive:  # not in a process that was forked
            state.close()


@_untraced
def _wait(state, done):
    """At the end of the backward pass, right before DDP itself waits for the buckets: there signals would wait, too, as
    long as a rank does not come. state: a weak reference, since PyTorch forgets to free this where backward fails."""
    try:
        done.wait()
    except BaseException as error:
        if state() is not None:
            state()._interrupted(error)
        raise
    if state() is not None:
        state()._within_step, state()._ended_step = False, True


# PyTorch looks at these annotations, which therefore are no strings.
@_untraced
def hook(state: DDPState, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """For ddp.register_comm_hook(state, hook): the ranks' average of the bucket, of which each sends few entries."""
    if not isinstance(state, DDPState):
        raise InvalidArgument("register_comm_hook(state, hook) wants a DDPState as its state")
    if not isinstance(bucket, dist.GradBucket):
        raise Unsupported("this hook is for DDP's own reducer; the python_reducer of torch.compile hands out other "
                          "buckets")
    try:
        return state._take(bucket)
    except KeyboardInterrupt as error:
        state._interrupted(error)
        raise
    except Exception as error:
        state._failed(error)
        raise

# SPDX-License-Identifier: Apache-2.0
"""What lets sparse methods learn faster: docs/guide/recipe.md."""
from __future__ import annotations

from typing import Any, List, Optional, Sequence, Union

import torch

from .._errors import InvalidArgument, InvalidUsage, Unsupported
from ._buckets import accumulate_type
from ._ddp import DDPState, averaged, hook
from ._gather import agree


# In parameter groups: what of theirs is in front of the exchange.
_MOVED, _NESTEROV = "sparsecoll_momentum", "sparsecoll_nesterov"


def _schedule(density, training_steps):
    """(densities that a warm-up starts with, steps of each): 0.25 and a quarter of the one before (Lin et al. 2018)."""
    densities, level = [], 0.25
    while training_steps and level > density:
        densities.append(level)
        level /= 4
    return densities, min(max((training_steps or 0) // 8, 1), 100)


def _same(optimizers, key):
    values = {group.get(key) or 0 for optimizer in optimizers for group in optimizer.param_groups}
    if len(values) > 1:
        where = "parameter groups of the optimiser" if len(optimizers) == 1 else "the optimisers"
        raise Unsupported(f"{where} have different {key}: {sorted(values)}")
    return values.pop()


def attach(ddp: Any, optimizer: Union[torch.optim.Optimizer, Sequence[torch.optim.Optimizer]], density: float = 0.01,
           preset: str = "auto", *, training_steps: Optional[int] = None, group: Any = None,
           **options: Any) -> Union[DDPState, List[DDPState]]:
    """Registers the hook on ddp with the recipe, and returns its state. Collective.

    SGD's momentum moves out of the optimiser, in front of the exchange; the optimiser's own becomes 0 and its weight
    decay is divided by 1 - momentum. What the optimiser had of momentum goes along. Adam and others without SGD's
    momentum keep what they have. training_steps: of the whole training; with it the density starts at 0.25 and falls to
    a quarter of the one before until it is `density`, an eighth of the training each, at most 100 steps.
    group, options: of DDPState. To resume, call it behind optimizer.load_state_dict: a state that was saved behind
    attach tells what has moved. Such a state may be loaded behind attach, too. A weight decay that add_param_group
    gets later is taken as it is. Momentum takes a vector of all parameters, and two where they are sent dense.

    optimizer: a list of all that step ddp's parameters, if there are several. ddp: a list, if an optimiser has
    parameters of several models; then the result is the list of their states, and `group` a list of groups.

    Errors, which leave the optimisers as they were, while a model of a list that has the hook by then has to be wrapped
    anew: as DDPState; Unsupported (SGD with dampening, maximize, momentum of
    1 or more, groups of different momentum or nesterov, or gradients in half precision; another optimiser with
    momentum), InvalidArgument (an optimiser has momentum for parameters that ddp has not).
    """
    models = list(ddp) if isinstance(ddp, (list, tuple)) else [ddp]
    optimizers = list(dict.fromkeys(optimizer)) if isinstance(optimizer, (list, tuple)) else [optimizer]
    if not optimizers:
        raise InvalidArgument("attach wants the optimiser of the model's parameters")
    process_groups = list(group) if isinstance(group, (list, tuple)) else [group] * len(models)
    if len(process_groups) != len(models) or (len(models) > 1 and group is not None and process_groups[0] is group):
        raise InvalidArgument(f"{len(models)} models want a list of as many groups, each used by nothing else")
    densities, steps = _schedule(density, training_steps)
    if densities:
        options.setdefault("density_schedule", densities)
        options.setdefault("schedule_steps", steps)
    for each in optimizers:
        if not isinstance(each, torch.optim.SGD) and any(part.get("momentum") for part in each.param_groups):
            raise Unsupported(f"{type(each).__name__} with momentum: only SGD's can move in front of the exchange")
    momentum, nesterov = _momentum_of(optimizers)
    if momentum:
        _check_sgd(models, optimizers, momentum)
    states: List[DDPState] = []
    try:
        for model, own in zip(models, process_groups):
            states.append(DDPState(model, density, preset, group=own, optimizers=optimizers, **options))
        if momentum:
            for state in states:
                _take_velocities(state, optimizers, momentum, nesterov)
        for model, state in zip(models, states):
            model.register_comm_hook(state, hook)
        if momentum:
            _drop_momentum(states, optimizers, momentum, nesterov)
    except BaseException:
        for state in states:
            state.close()
        raise
    return states if isinstance(ddp, (list, tuple)) else states[0]


def _momentum_of(optimizers):
    """(momentum, nesterov): the optimisers' own, or those that an attach before this one has moved, as a state tells
    that was saved behind it."""
    momentum, moved = _same(optimizers, "momentum"), _same(optimizers, _MOVED)
    if momentum and moved:
        raise InvalidUsage(f"the optimiser has momentum {momentum}, and {moved} in front of the exchange already")
    return (moved, _same(optimizers, _NESTEROV)) if moved else (momentum, _same(optimizers, "nesterov"))


def _check_sgd(models, optimizers, momentum):
    if momentum >= 1:
        raise Unsupported(f"SGD with a momentum of {momentum}: weight decay is divided by 1 - momentum")
    known = {parameter for model in models for _, parameter in averaged(model)}
    trained = [parameter for optimizer in optimizers for group in optimizer.param_groups
               for parameter in group["params"] if parameter.requires_grad]
    for parameter in trained:
        if parameter not in known:
            raise InvalidArgument("the optimiser has momentum for a parameter that ddp does not average: attach all "
                                  "its models together, as a list; give parameters that DDP ignores another optimiser")
        if parameter.dtype in (torch.float16, torch.bfloat16):
            raise Unsupported(f"momentum of gradients of {parameter.dtype} cannot move in front of the exchange: keep "
                              "parameters in float32 and train them under torch.autocast, or make a DDPState and "
                              "register sct.hook, which leave momentum in the optimiser")
    for group in [group for optimizer in optimizers for group in optimizer.param_groups]:
        for key in ("dampening", "maximize"):
            if group.get(key):
                raise Unsupported(f"SGD with {key}: its momentum cannot move in front of the exchange")


def _take_velocities(state, optimizers, momentum, nesterov):
    """Copies what the optimisers have of the model's momentum. Collective."""
    velocities = {}
    for optimizer in optimizers:
        for parameter in [each for group in optimizer.param_groups for each in group["params"]]:
            velocity = optimizer.state.get(parameter, {}).get("momentum_buffer")
            if velocity is not None and parameter in state._names:
                kind = accumulate_type(parameter.dtype)
                name = state._names[parameter]
                velocities[name] = state._layouts[name].flat(velocity.detach()).to(kind, copy=True)
    agree(state._gather, momentum=momentum, nesterov=bool(nesterov), velocities=sorted(velocities))
    state._buckets.velocities.update(velocities)


def _drop_momentum(states, optimizers, momentum, nesterov):
    """The optimisers' own momentum ends, or stays whole where this is interrupted."""
    def groups():
        return [group for optimizer in optimizers for group in optimizer.param_groups]

    def check():  # load_state_dict replaces the groups
        if any(group["momentum"] for group in groups()):
            raise InvalidUsage("the optimiser has momentum again, which is in front of the exchange: a scheduler that "
                               "changes it (cycle_momentum=False keeps it from that), or a state that was saved before "
                               "attach and loaded behind it")
        for group in groups():
            group.update(marks)

    marks = {_MOVED: momentum, _NESTEROV: bool(nesterov)}
    settings = groups() + [optimizer.defaults for optimizer in optimizers]  # those of groups that are added later
    before = [(group, dict(group)) for group in settings]
    held = [(optimizer.state[parameter], dict(optimizer.state[parameter])) for optimizer in optimizers
            for group in optimizer.param_groups for parameter in group["params"] if parameter in optimizer.state]
    try:
        for group in settings:
            if _MOVED not in group:
                group["weight_decay"] /= 1 - momentum
            group["momentum"], group["nesterov"] = 0, False
            group.update(marks)
        for kept, _ in held:
            kept.pop("momentum_buffer", None)
        for state in states:
            state._method.momentum, state._method.nesterov = momentum, bool(nesterov)
            state._before_step = check
    except BaseException:
        for now, then in before + held:
            now.clear()
            now.update(then)
        raise

# SPDX-License-Identifier: Apache-2.0
"""What lets sparse methods learn faster: docs/guide/recipe.md."""
from __future__ import annotations

from typing import Any, Optional

import torch

from .._errors import InvalidArgument, InvalidUsage, Unsupported
from ._buckets import accumulate_type
from ._ddp import DDPState, hook
from ._gather import agree


def _schedule(density, training_steps):
    """(densities that a warm-up starts with, steps of each): 0.25 and a quarter of the one before (Lin et al. 2018)."""
    densities, level = [], 0.25
    while training_steps and level > density:
        densities.append(level)
        level /= 4
    return densities, min(max((training_steps or 0) // 48, 1), 100)


def _same(groups, key):
    values = {group.get(key) for group in groups}
    if len(values) > 1:
        raise Unsupported(f"parameter groups of the optimiser have different {key}: {sorted(values)}")
    return values.pop()


def attach(ddp: Any, optimizer: torch.optim.Optimizer, density: float = 0.01, preset: str = "topka", *,
           training_steps: Optional[int] = None, **options: Any) -> DDPState:
    """Registers the hook on ddp with the recipe, and returns its state. Collective.

    SGD's momentum moves out of the optimiser, in front of the exchange; the optimiser's own becomes 0 and its weight
    decay is divided by 1 - momentum. What the optimiser had of momentum goes along. Adam and others without SGD's
    momentum keep what they have. training_steps: of the whole training; with it the density starts at 0.25 and falls to
    a quarter of the one before until it is `density`, a 48th of the training each, at most 100 steps.
    options: of DDPState. Call it behind optimizer.load_state_dict, or load a state that was saved behind attach.

    Errors: as DDPState; Unsupported (SGD with dampening, maximize, groups of different momentum or nesterov, or
    gradients in half precision; another optimiser with momentum), InvalidArgument (the optimiser has momentum for
    parameters that ddp has not).
    """
    densities, steps = _schedule(density, training_steps)
    if densities:
        options.setdefault("density_schedule", densities)
        options.setdefault("schedule_steps", steps)
    if not isinstance(optimizer, torch.optim.SGD):
        if any(group.get("momentum") for group in optimizer.param_groups):
            raise Unsupported(f"{type(optimizer).__name__} with momentum: only SGD's can move in front of the exchange")
        return _registered(ddp, DDPState(ddp, density, preset, **options))
    groups = optimizer.param_groups
    momentum, nesterov = _same(groups, "momentum"), _same(groups, "nesterov")
    if momentum:
        _check_sgd(ddp, groups)
    state = DDPState(ddp, density, preset, **options)
    if momentum:
        _move_momentum(state, optimizer, momentum, nesterov)
    return _registered(ddp, state)


def _registered(ddp, state):
    ddp.register_comm_hook(state, hook)
    return state


def _check_sgd(ddp, groups):
    for key in ("dampening", "maximize"):
        if any(group.get(key) for group in groups):
            raise Unsupported(f"SGD with {key}: its momentum cannot move in front of the exchange")
    known = {parameter for parameter in ddp.module.parameters() if parameter.requires_grad}
    for group in groups:
        for parameter in group["params"]:
            if parameter not in known:
                raise InvalidArgument("the optimiser has momentum for a parameter that ddp does not average")
            if parameter.dtype in (torch.float16, torch.bfloat16):
                raise Unsupported("momentum of gradients in half precision cannot move in front of the exchange")


def _move_momentum(state, optimizer, momentum, nesterov):
    velocities = {}
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            velocity = optimizer.state.get(parameter, {}).pop("momentum_buffer", None)
            if velocity is not None:
                kind = accumulate_type(parameter.dtype)
                velocities[state._names[parameter]] = velocity.detach().reshape(-1).to(kind)
        group["momentum"], group["nesterov"] = 0, False
        group["weight_decay"] /= 1 - momentum

    def check():
        if any(group["momentum"] for group in optimizer.param_groups):
            raise InvalidUsage("the optimiser has momentum again, which is in front of the exchange: load a state that "
                               "was saved before attach before attach")

    agree(state._gather, momentum=momentum, nesterov=bool(nesterov), velocities=sorted(velocities))
    state._buckets.velocities.update(velocities)
    state._method.momentum, state._method.nesterov = momentum, bool(nesterov)
    state._before_step = check

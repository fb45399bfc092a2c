# SPDX-License-Identifier: Apache-2.0
"""Which part of saved states a rank goes on from."""
from __future__ import annotations

import torch

from .._errors import InvalidArgument
from ._buckets import accumulate_type


def check_floats(name, value):
    """Errors: InvalidArgument."""
    if not (isinstance(value, torch.Tensor) and value.is_floating_point()):
        kind = value.dtype if isinstance(value, torch.Tensor) else type(value).__name__
        raise InvalidArgument(f"the state's {name} are {kind}, and no tensor of floating point: load them as they "
                              "were saved")


def _all_of(states, form):
    """The states by rank. Errors: InvalidArgument (one is missing, there twice, or of another training)."""
    for each in states:
        if not isinstance(each, dict) or each.get("form") != form:
            raise InvalidArgument("this is no state_dict of a DDPState of this version")
    ranks = {state["ranks"] for state in states}
    if len(ranks) != 1 or sorted(state["rank"] for state in states) != list(range(*ranks)):
        raise InvalidArgument(f"states of ranks {sorted(state['rank'] for state in states)} of {sorted(ranks)}: all of "
                              "one training are needed")
    steps = {state["step"] for state in states}
    if len(steps) > 1:
        raise InvalidArgument(f"states of different steps: {sorted(steps)}")
    return sorted(states, key=lambda state: state["rank"])


def dense_steps_left(saved):
    """How many the training that was saved had still to go. Errors: InvalidArgument."""
    states = [saved] if isinstance(saved, dict) else list(saved)
    left = {state.get("dense_steps_left", 0) for state in states}
    if len(left) != 1 or not all(isinstance(each, int) and each >= 0 for each in left):
        raise InvalidArgument(f"states with other numbers of dense steps to come: {sorted(map(str, left))}")
    return left.pop()


def chosen(saved, form, rank, ranks, density, check, layouts):
    """(step, residuals, velocities, auto's choices) for `rank` of `ranks`: as they lie in buckets, by parameter name, in
    memory of their own.

    saved: the state of this rank, or the list of all ranks' states. An average over other many ranks divides by their
    number, so what is taken over is multiplied by it. Choices were made for a number of ranks and a density: others
    choose anew. check(state) raises InvalidArgument unless the model fits.
    """
    if isinstance(saved, dict):
        if saved.get("form") != form:
            raise InvalidArgument("this is no state_dict of a DDPState of this version")
        if (saved["rank"], saved["ranks"]) != (rank, ranks):
            raise InvalidArgument(f"the state of rank {saved['rank']} of {saved['ranks']}, this is rank {rank} of "
                                  f"{ranks}: every rank loads its own, or on another number of ranks the list of all")
        states = [saved]
    else:
        states = _all_of(list(saved), form)
    for each in states:
        check(each)
    step, before = states[0]["step"], states[0]["ranks"]
    if isinstance(saved, dict) or before == ranks:
        mine, factor = [state for state in states if state["rank"] == rank], 1
    else:
        mine, factor = [state for state in states if state["rank"] % ranks == rank], ranks / before
    sums = []
    for kind in ("residuals", "velocities"):
        # Ranks that take over nothing have zeros, since all send alike.
        total = {} if mine else {name: torch.zeros(value.numel()) for name, value in states[0][kind].items()}
        for state in mine:
            for name, value in state[kind].items():
                # What was saved in half precision is added in more.
                value = layouts[name].flat(value.detach()).to(accumulate_type(value.dtype), copy=True)
                total[name] = total[name] + value if name in total else value
        sums.append({name: value if factor == 1 else value * factor for name, value in total.items()})
    stays = before == ranks and states[0]["density"] == density
    return step, sums[0], sums[1], dict(states[0]["choices"]) if stays else {}

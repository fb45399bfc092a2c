# SPDX-License-Identifier: Apache-2.0
"""Counters and decisions of reducers, as the library's structs hold them."""
from __future__ import annotations

import dataclasses
import re

from ._library import lib

_NAMES = {
    "between_nodes": lib.sparsecollCollectiveName,
    "collective": lib.sparsecollCollectiveName,
    "last_collective": lib.sparsecollCollectiveName,
    "selector": lib.sparsecollSelectorName,
}


def of_struct(kind, struct):
    """The dataclass `kind` with what the struct's fields of the same names hold."""
    values = {}
    for name, *_ in struct._fields_:
        field = re.sub("[A-Z]", lambda letter: "_" + letter[0].lower(), name)
        if field not in kind.__dataclass_fields__:
            continue
        value = getattr(struct, name)
        if field in _NAMES:
            value = _NAMES[field](value).decode()
        values[field] = value.decode(errors="replace") if isinstance(value, bytes) else value
    return kind(**values)


@dataclasses.dataclass(frozen=True)
class Stats:
    """Counters of a reducer on this rank since it was made. Times are nanoseconds, sizes bytes, last_*: the latest
    step. On devices times are those of the latest step that the device has finished."""

    ops_started: int
    ops_completed: int
    ops_dense: int  # steps that ran the dense collective
    ops_non_finite: int  # steps in which some rank saw NaN or Inf
    ops_overflow: int  # steps in which a message was full and entries stayed in the residual
    ops_fallback: int  # steps whose threshold for candidates was wrong
    bytes_dense: int  # what a ring all-reduce would have sent
    bytes_sent: int
    bytes_received: int
    workspace_bytes: int
    workspace_peak_bytes: int
    last_sequence: int
    last_length: int
    last_requested: int  # k
    last_selected: int  # entries that this rank sent
    last_union: int  # distinct entries of the sum, or an upper bound of them
    last_candidates: int
    last_bytes_sent: int
    last_select_ns: int
    last_exchange_ns: int
    last_scatter_ns: int
    last_total_ns: int
    last_threshold: float
    last_imbalance: float  # largest / mean entries per rank
    last_collective: str
    entries_lost: int
    last_rounds: int  # communication rounds
    last_messages_sent: int
    bytes_abandoned: int
    bytes_sent_between_nodes: int  # of bytes_sent, in hierarchical steps
    bytes_received_between_nodes: int


@dataclasses.dataclass(frozen=True)
class Info:
    """What a reducer runs and why."""

    selector: str
    collective: str
    n: int
    k: int  # entries requested
    capacity: int  # most entries that this rank sends in a step
    workspace_bytes: int
    memory_bound_bytes: int
    density_is_global: int  # 1: k counts the union over ranks; 0: entries per rank
    teams: int
    reason: str
    between_nodes: str  # the collective between nodes of a hierarchical reducer; else "auto"
    nodes: int  # 0: it is not hierarchical
    shard_begin: int  # the part of the vector whose residual is this rank's
    shard_length: int

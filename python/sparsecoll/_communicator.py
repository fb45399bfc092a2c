# SPDX-License-Identifier: Apache-2.0
"""Communicators: which ranks there are, and what carries their messages."""
from __future__ import annotations

import ctypes
import dataclasses
import os
from typing import Callable, Iterable, List, Optional, Sequence

from . import _abi
from ._errors import Failure, InvalidArgument, check, failure_of, peer_failure_of
from ._handle import Handle
from ._library import init, lib

HOST = _abi.SPARSECOLL_HOST
CURRENT_DEVICE = _abi.SPARSECOLL_CURRENT_DEVICE

_TRANSPORTS = {"auto": _abi.sparsecollTransportAuto, "ucx": _abi.sparsecollTransportUcx,
               "tcp": _abi.sparsecollTransportTcp, "nccl": _abi.sparsecollTransportNccl}
_NON_FINITE = {"propagate": _abi.sparsecollNonFinitePropagate, "error": _abi.sparsecollNonFiniteError}


def _milliseconds(seconds: Optional[float]) -> int:
    """As the library takes it, where 0 means its default."""
    if seconds is None:
        return 0
    if seconds == float("inf"):
        return _abi.SPARSECOLL_NO_TIMEOUT
    if not seconds > 0:
        raise InvalidArgument(f"a time of {seconds} seconds")
    return min(max(1, round(seconds * 1000)), _abi.SPARSECOLL_NO_TIMEOUT)


def _of(names, name, what):
    try:
        return names[name]
    except KeyError:
        raise InvalidArgument(f"{what} {name!r}; possible are {', '.join(names)}") from None


@dataclasses.dataclass(frozen=True)
class Config:
    """How ranks wait for and find each other. Times are seconds, inf for no limit. None: the library's default, and for
    hooks of sparsecoll.torch an op_timeout as of the process group. It cannot change, since what it was given to would
    not: dataclasses.replace makes another."""

    op_timeout: Optional[float] = None  # longest wait for the other ranks in one call; 600
    init_timeout: Optional[float] = None  # longest wait for them while a communicator is made; 120
    abort_timeout: Optional[float] = None  # longest wait for work on memory that is to go back; 10
    transport: str = "auto"  # "ucx", "tcp" or "nccl": that one, or an error
    non_finite: str = "propagate"  # "error": a step in which some rank has NaN or Inf raises NonFinite on all ranks
    interface: Optional[str] = None  # the network interface that ranks meet on, or "auto"
    name: Optional[str] = None  # shown in logs and errors
    workspace_limit: int = 0  # bytes that a communicator and its reducers may hold on a rank; 0: no limit

    def _struct(self):
        config = init(_abi.sparsecollConfig_t)
        config.opTimeoutMs = _milliseconds(self.op_timeout)
        config.initTimeoutMs = _milliseconds(self.init_timeout)
        config.abortTimeoutMs = _milliseconds(self.abort_timeout)
        config.transport = _of(_TRANSPORTS, self.transport, "transport")
        config.nonFinite = _of(_NON_FINITE, self.non_finite, "non_finite")
        config.interfaceName = self.interface.encode() if self.interface is not None else None
        config.name = self.name.encode() if self.name is not None else None
        config.workspaceLimitBytes = self.workspace_limit
        return config


def _config(config: Optional[Config]):
    return ctypes.byref((config or Config())._struct())


class Communicator(Handle):
    """This rank's end of a group of ranks.

    One thread at a time uses a communicator and the reducers on it, and every rank needs a thread or a process of its
    own. Any thread at any moment may call abort, failure, dump_flight_recorder and ended. Calls wait without the
    interpreter's lock.

        with Communicator.from_env() as communicator:
            ...

    Errors are exceptions of this package. After a fork the new process can use none of its parent's.
    """

    _name = "communicator"
    _destroy = staticmethod(lib.sparsecollCommDestroy)

    def __init__(self, handle: int):
        """Takes over a sparsecollComm_t. The class methods below make one."""
        self._handle = handle
        rank, size, device = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
        check(lib.sparsecollCommGetInfo(handle, ctypes.byref(rank), ctypes.byref(size), ctypes.byref(device)))
        self.rank: int = rank.value
        self.size: int = size.value
        self.device: int = device.value  # HOST, or a CUDA ordinal

    @staticmethod
    def unique_id(config: Optional[Config] = None) -> bytes:
        """An id for one new communicator: rank 0 makes it and hands it to all ranks, which keep it secret.

        Ranks meet at loopback unless config.interface names an interface or is "auto". Rank 0 joins in this process.
        Errors: InvalidArgument (no such interface), Unsupported (a library without ids), SystemFailure.
        """
        unique = _abi.sparsecollUniqueId_t()
        check(lib.sparsecollGetUniqueId(ctypes.byref(unique), _config(config)))
        return bytes(unique.bytes)

    @classmethod
    def from_id(cls, unique_id: bytes, rank: int, size: int, device: int = HOST,
                config: Optional[Config] = None) -> Communicator:
        """Rank `rank` of `size`, by an id of unique_id's. Collective: returns when all ranks have called it.

        Errors: InvalidArgument, InvalidUsage (an id that was used), Timeout (names the ranks that did not come),
        Mismatch, PeerFailed, AuthFailed, Unsupported.
        """
        if len(unique_id) != _abi.SPARSECOLL_UNIQUE_ID_BYTES:
            raise InvalidArgument(f"an id of {len(unique_id)} bytes, not {_abi.SPARSECOLL_UNIQUE_ID_BYTES}")
        unique = _abi.sparsecollUniqueId_t.from_buffer_copy(unique_id)
        handle = ctypes.c_void_p()
        check(lib.sparsecollCommInitRank(ctypes.byref(handle), size, ctypes.byref(unique), rank, device,
                                         _config(config)))
        return cls(handle.value)

    @classmethod
    def from_env(cls, device: int = HOST, config: Optional[Config] = None) -> Communicator:
        """This process in a job that torchrun, srun, mpirun, mpiexec or sparsecoll-run has started, or whoever set
        RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT. A process that nobody has launched is rank 0 of 1. Collective.

        Errors: as from_id; Unsupported (several ranks without a place to meet).
        """
        handle = ctypes.c_void_p()
        check(lib.sparsecollCommInitEnv(ctypes.byref(handle), device, _config(config)))
        return cls(handle.value)

    @classmethod
    def from_all_gather(cls, rank: int, size: int, all_gather: Callable[[bytes], Sequence[bytes]], device: int = HOST,
                        config: Optional[Config] = None) -> Communicator:
        """Rank `rank` of `size`, whose ranks reach each other by all_gather: called a few times on this thread, it gets
        this rank's bytes and returns those of all ranks, by rank, each as many. They carry a secret. Collective.

        Errors: as from_id; RemoteError (all_gather raised; what it raised is the cause).
        """
        raised: List[BaseException] = []

        def gather(_, send, receive, size_each, __):
            try:
                parts = all_gather(ctypes.string_at(send, size_each))
                if [len(part) for part in parts] != [size_each] * size:
                    raise InvalidArgument(f"all_gather returned other parts than {size} of {size_each} bytes")
                ctypes.memmove(receive, b"".join(bytes(part) for part in parts), size_each * size)
                return 0
            except BaseException as error:  # pylint: disable=broad-except  (no exception passes through C)
                raised.append(error)
                return 1

        oob = init(_abi.sparsecollOob_t)
        oob.allgather = dict(_abi.sparsecollOob_t._fields_)["allgather"](gather)
        handle = ctypes.c_void_p()
        result = lib.sparsecollCommInitOob(ctypes.byref(handle), size, rank, device, ctypes.byref(oob), _config(config))
        try:
            check(result)
        except Exception as error:
            if raised and not isinstance(raised[0], Exception):
                raise raised[0]  # Ctrl-C stays what it is
            raise error from (raised[0] if raised else None)
        return cls(handle.value)

    @classmethod
    def threads(cls, size: int, devices: Optional[Sequence[int]] = None,
                config: Optional[Config] = None) -> List[Communicator]:
        """One communicator for each of `size` threads of this process; each is then used by its own thread.

        devices: a CUDA ordinal for each, None for host memory. Errors: InvalidArgument, Unsupported, OutOfMemory.
        """
        if devices is not None and len(devices) != size:
            raise InvalidArgument(f"{len(devices)} devices for {size} ranks")
        handles = (ctypes.c_void_p * max(size, 1))()
        ordinals = (ctypes.c_int * size)(*devices) if devices is not None else None
        check(lib.sparsecollCommInitAll(handles, size, ordinals, _config(config)))
        return [cls(handle) for handle in handles[:size]]

    def split(self, color: int, key: int, config: Optional[Config] = None) -> Optional[Communicator]:
        """A communicator of all ranks with the same color, numbered by key; None for color -1. Collective.

        Errors: as a collective call, Unsupported (devices).
        """
        handle = ctypes.c_void_p()
        self._check(lib.sparsecollCommSplit(self.handle, color, key, ctypes.byref(handle),
                                            _config(config) if config else None))
        return Communicator(handle.value) if handle.value else None

    def shrink(self, excluded: Iterable[int] = (), config: Optional[Config] = None) -> Communicator:
        """A communicator of the ranks that are left, in the same order: without those whose process has ended, that
        have closed this communicator, or that are in `excluded`, which is the same on all callers. Every other rank
        calls it, also after PeerFailed or Timeout. Afterwards this communicator has ended: move its reducers, then
        close it.

        Errors: Timeout (names who has not called), PeerFailed (this rank is excluded), Unsupported (devices).
        """
        ranks = list(excluded)
        handle = ctypes.c_void_p()
        self._check(lib.sparsecollCommShrink(self.handle, (ctypes.c_int * max(len(ranks), 1))(*ranks), len(ranks),
                                             ctypes.byref(handle), _config(config) if config else None))
        return Communicator(handle.value)

    @property
    def transport(self) -> str:
        """What carries the messages: "threads", "ucx", "tcp", "nccl"."""
        return lib.sparsecollTransportName(self._details().transport).decode()

    @property
    def reason(self) -> str:
        """Why that one, in a sentence."""
        return self._details().reason.decode()

    def failure(self) -> Failure:
        """The latest failure, whether it ended the communicator or not. Any thread."""
        return failure_of(self.handle)

    def peer_failure(self) -> Failure:
        """What is known of the other ranks, without a call of theirs: code is PeerFailed.code where the process of
        rank `peer` has ended or others have given up because of it, Aborted.code where it has aborted and goes on, 0
        while none has failed: then `peer` is one that has closed its communicator, if any. Over UCX and TCP. Any thread,
        also while this rank waits for something else."""
        return peer_failure_of(self.handle)

    def dump_flight_recorder(self, path: Optional[str] = None) -> None:
        """Writes the last operations on this rank to a file of JSON, which sparsecoll-flight joins with those of the
        other ranks. None: to the folder that SPARSECOLL_FLIGHT_DIR names. Any thread, also while a step hangs.

        Errors: InvalidArgument (None without the variable; something else than a plain file is there), Unsupported
        (SPARSECOLL_FLIGHT_RECORDER=0), SystemError (it cannot be written).
        """
        check(lib.sparsecollCommDumpFlightRecorder(self.handle, None if path is None else os.fsencode(path)))

    def ended(self) -> bool:
        """Whether a failure or abort has ended it. Any thread."""
        state = ctypes.c_int()
        check(lib.sparsecollCommGetAsyncError(self.handle, ctypes.byref(state)))
        return state.value != _abi.sparsecollSuccess

    def wait(self, stream: Optional[int] = None, timeout: Optional[float] = None) -> None:
        """Waits for the stream's work on a device and raises what went wrong there. On the host there is nothing to
        wait for. timeout: seconds. Errors: NonFinite, Timeout, CudaError, and every code that ends a communicator."""
        self._check(lib.sparsecollCommWait(self.handle, stream, _milliseconds(timeout)))

    def abort(self) -> None:
        """Ends it: waits of this rank raise Aborted, waits of its peers PeerFailed. Any thread, any moment."""
        check(lib.sparsecollCommAbort(self.handle))

    def close(self) -> None:
        """Frees it and ends its reducers' use. Peers that still wait for this rank get PeerFailed. May be repeated."""
        super().close()

    def _details(self):
        details = init(_abi.sparsecollCommDetails_t)
        check(lib.sparsecollCommGetDetails(self.handle, ctypes.byref(details)))
        return details

    def _check(self, result):
        check(result, self._handle)

    def __repr__(self) -> str:
        return f"<Communicator rank {self.rank} of {self.size}{'' if self._handle else ', closed'}>"

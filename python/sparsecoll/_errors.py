# SPDX-License-Identifier: Apache-2.0
"""What a call of the library came back with, as exceptions."""
import ctypes
import dataclasses
from typing import Optional

from . import _abi
from ._library import init, lib


class Error(RuntimeError):
    """A call of the library failed. Its text is the library's own.

    code: the number of the result (sparsecollResult_t). peer: the rank concerned, None if there is none. field: what
    the ranks disagree on, for Mismatch, else "".
    """

    code = 0

    def __init__(self, text, code=None, peer=None, field=""):
        super().__init__(text)
        if code is not None:
            self.code = code
        self.peer = peer
        self.field = field


class CudaError(Error):
    code = _abi.sparsecollCudaError


class SystemFailure(Error):
    """The operating system failed, or an engine of the caller's (sparsecollSystemError)."""

    code = _abi.sparsecollSystemError


class InternalError(Error):
    """A fault of the library's."""

    code = _abi.sparsecollInternalError


class InvalidArgument(Error, ValueError):
    """The call had no effect."""

    code = _abi.sparsecollInvalidArgument


class InvalidUsage(Error):
    """Right arguments at the wrong time, for example a closed communicator."""

    code = _abi.sparsecollInvalidUsage


class RemoteError(Error):
    """NCCL lost a peer, or the caller's all-gather failed."""

    code = _abi.sparsecollRemoteError


class Timeout(Error, TimeoutError):
    """Ranks or the stream did not come in time."""

    code = _abi.sparsecollTimeout


class OutOfMemory(Error, MemoryError):
    code = _abi.sparsecollOutOfMemory


class Unsupported(Error):
    """This build, device or version cannot do it."""

    code = _abi.sparsecollUnsupported


class Mismatch(Error):
    """Ranks disagree on order, length, type or parameters; raised on all of them. field says on what."""

    code = _abi.sparsecollMismatch


class Capacity(Error):
    """An output is too small."""

    code = _abi.sparsecollCapacity


class NonFinite(Error, ArithmeticError):
    """An entry of some rank is NaN or Inf; only where non_finite="error" asks for it."""

    code = _abi.sparsecollNonFinite


class Aborted(Error):
    """abort was called on this rank."""

    code = _abi.sparsecollAborted


class PeerFailed(Error):
    """Another rank aborted, failed, died, or closed its communicator. peer is its rank, where that is known."""

    code = _abi.sparsecollPeerFailed


class Corrupted(Error):
    """A message or an exported state is damaged."""

    code = _abi.sparsecollCorrupted


class AuthFailed(Error):
    """A rank has another key; only what makes a communicator raises it."""

    code = _abi.sparsecollAuthFailed


BY_CODE = {kind.code: kind for kind in (
    CudaError, SystemFailure, InternalError, InvalidArgument, InvalidUsage, RemoteError, Timeout, OutOfMemory,
    Unsupported, Mismatch, Capacity, NonFinite, Aborted, PeerFailed, Corrupted, AuthFailed)}


@dataclasses.dataclass(frozen=True)
class Failure:
    """The latest failure of a communicator. code: its result, 0 while there was none. peer: the rank, or None."""

    code: int
    peer: Optional[int]
    field: str
    text: str


def _failure(communicator, ask=lib.sparsecollCommGetFailure):
    """(result of the call, Failure)."""
    failure = init(_abi.sparsecollFailure_t)
    result = ask(communicator, ctypes.byref(failure))
    return result, Failure(failure.result, failure.peer if failure.peer >= 0 else None,
                           failure.field.decode(errors="replace"), failure.text.decode(errors="replace"))


def failure_of(communicator):
    """The Failure that the communicator of this handle has noted."""
    result, failure = _failure(communicator)
    check(result)
    return failure


def peer_failure_of(communicator):
    """The Failure of a rank that the communicator of this handle knows to be gone."""
    result, failure = _failure(communicator, lib.sparsecollCommGetPeerFailure)
    check(result)
    return failure


def check(result, communicator=None):
    """Raises the exception of result unless it is Success. On the thread of the call, right behind it.

    communicator: handle of the one that the call was on, if any; it knows which rank and which field.
    """
    if result == _abi.sparsecollSuccess:
        return
    text = lib.sparsecollGetLastError().decode(errors="replace")
    name = lib.sparsecollGetErrorString(result).decode()
    peer, field = None, ""
    if communicator:
        told, failure = _failure(communicator)
        if told == _abi.sparsecollSuccess and failure.code == result:
            peer, field = failure.peer, failure.field
    raise BY_CODE.get(result, Error)(f"{name}: {text}" if text else name, result, peer, field)

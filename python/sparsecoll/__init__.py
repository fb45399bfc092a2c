# SPDX-License-Identifier: Apache-2.0
"""Sparse all-reduce for data-parallel training: the Python interface of libsparsecoll.

    from sparsecoll import Communicator, Reducer

    with Communicator.from_env() as communicator:
        reducer = Reducer(communicator, gradient.size, gradient.dtype, preset="topka", density=0.01, op="avg")
        reducer.run(gradient)

Arrays are NumPy's, or any with DLPack or __cuda_array_interface__. sparsecoll.torch has the hook for PyTorch's
DistributedDataParallel.
"""
from ._communicator import CURRENT_DEVICE, HOST, Communicator, Config
from ._errors import (Aborted, AuthFailed, Capacity, Corrupted, CudaError, Error, Failure, InternalError,
                      InvalidArgument, InvalidUsage, Mismatch, NonFinite, OutOfMemory, PeerFailed, RemoteError,
                      SystemFailure, Timeout, Unsupported)
from ._library import VERSION as __version__
from ._library import lib as _lib
from ._reducer import Reducer, Segment, all_reduce, presets
from ._stats import Info, Stats


def build_info() -> str:
    """One line of JSON on the loaded library: version, compiler, instruction sets, back ends, transports."""
    return _lib.sparsecollGetBuildInfo().decode()


__all__ = [
    "CURRENT_DEVICE", "HOST", "Aborted", "AuthFailed", "Capacity", "Communicator", "Config", "Corrupted", "CudaError",
    "Error", "Failure", "Info", "InternalError", "InvalidArgument", "InvalidUsage", "Mismatch", "NonFinite",
    "OutOfMemory", "PeerFailed", "Reducer", "RemoteError", "Segment", "Stats", "SystemFailure", "Timeout",
    "Unsupported", "all_reduce", "build_info", "presets",
]

# SPDX-License-Identifier: Apache-2.0
"""Reducers: a published method ready to run in a training loop."""
from __future__ import annotations

import ctypes
import dataclasses
from typing import Any, Callable, List, Optional, Sequence, Tuple, Union

from . import _abi
from ._arrays import span, type_code
from ._communicator import Communicator
from ._errors import InvalidArgument, Unsupported, check
from ._handle import Handle
from ._library import init, lib
from ._stats import Info, Stats, of_struct

_UNDECIDED = ("auto: no trials", "auto: trials")  # what the library's reason begins with then
_OPS = {"sum": _abi.sparsecollSum, "avg": _abi.sparsecollAvg}


def presets() -> List[str]:
    """The names of the published methods that `preset` may be."""
    names = []
    while True:
        name = lib.sparsecollPresetName(len(names))
        if name is None:
            return names
        names.append(name.decode())


def preset_of(info: Info) -> str:
    """The name of the published method with the selector and collective of `info`; "" where there is none."""
    if info.collective == "dense":
        return "dense"
    for name in presets():
        params = init(_abi.sparsecollParams_t)
        check(lib.sparsecollPreset(name.encode(), ctypes.byref(params)))
        like = (lib.sparsecollSelectorName(params.selector), lib.sparsecollCollectiveName(params.collective))
        if like == (info.selector.encode(), info.collective.encode()):
            return name
    return ""


@dataclasses.dataclass
class Segment:
    """One tensor of the flat gradient. length: elements. density: its own, 0 for the reducer's; if any tensor has one,
    every tensor is selected from on its own, by top-k alone. dense: send every entry of it."""

    length: int
    density: float = 0.0
    dense: bool = False


def method_params(preset, density, k, op, adjust=None):
    """sparsecollParams_t of a preset. Errors: InvalidArgument."""
    params = init(_abi.sparsecollParams_t)
    check(lib.sparsecollPreset(preset.encode(), ctypes.byref(params)))
    if density is not None and k is not None:
        raise InvalidArgument("density and k: give one of them")
    if op not in _OPS:
        raise InvalidArgument(f"op {op!r}; possible are 'sum' and 'avg'")
    if k is not None:
        params.k = k
    elif density is not None:
        params.density = density
    elif params.collective != _abi.sparsecollCollDense:
        params.density = 0.01
    params.op = _OPS[op]
    if adjust is not None:
        adjust(params)
    return params


def all_reduce(communicator: Communicator, values: Any, out: Any = None, *, preset: str = "topka",
               density: Optional[float] = None, k: Optional[int] = None, op: str = "sum",
               adjust: Optional[Callable[[Any], None]] = None, stream: Optional[int] = None) -> Any:
    """The sum over ranks of the selected entries of `values`, an array of any shape, in `out` (None: in place), which
    is returned. What is not selected is lost, and every call pays for a reducer of its own: in training, use a Reducer.

    density: of what the preset counts, in (0, 1], default 0.01; or k, entries. op: "sum" or "avg". adjust may set every
    field of sparsecollParams_t. stream: of a device, as an address. Collective.
    Errors: InvalidArgument, Unsupported, Mismatch, OutOfMemory, NonFinite, Timeout, PeerFailed, Aborted, Corrupted.
    """
    source = span(values, writable=out is None)
    target = source if out is None else span(out, writable=True)
    if (target.length, target.type) != (source.length, source.type):
        raise InvalidArgument("out has another length or type")
    _same_place(communicator, source, target)
    params = method_params(preset, density, k, op, adjust)
    communicator._check(lib.sparsecollAllReduce(source.address, target.address, source.length, source.type,
                                                ctypes.byref(params), communicator.handle, stream))
    return values if out is None else out


def _same_place(communicator, *spans):
    for each in spans:
        if (each.device == _abi.SPARSECOLL_HOST) != (communicator.device == _abi.SPARSECOLL_HOST):
            raise InvalidArgument("the array is in host memory and the communicator on a device"
                                  if each.device == _abi.SPARSECOLL_HOST else
                                  "the array is on a device and the communicator in host memory")


class Reducer(Handle):
    """A method, its residual and its workspace for one gradient. Collective: all ranks make it in the same order.

        reducer = Reducer(communicator, gradient.size, gradient.dtype, preset="topka", density=0.01, op="avg")
        for ...:
            reducer.run(gradient)        # in place: now it is the ranks' average

    n: elements, 1 to 2^32 - 2. dtype: float16, bfloat16, float32 or float64, NumPy's, PyTorch's or the name.
    preset: a name of presets(), or "auto". density: of what the preset counts, in (0, 1], default 0.01; or k, entries.
    op: "sum" or "avg". segments: the tensors in order, as Segment or lengths, which add up to n.
    momentum, nesterov: SGD's, in front of the exchange. clip_norm: L2 norm of all ranks' gradients together, 0 for
    none. residual_decay: in (0, 1]. None for one of these: the preset's own (dgc has momentum). error_feedback=False:
    what is not sent is lost. max_density: the most that set_density will ask for. density_schedule, schedule_steps:
    densities of the first steps, so many steps each; without max_density memory is planned anew for each of them.
    transactional: a step that fails leaves the residual as it was.
    residual: an array or tensor of n (transactional: 2 n) elements of float32, or float64 for float64 gradients; the
    reducer starts with it and keeps its residual there, up to date after every step. velocity: likewise of momentum;
    every rank's own, of what it put in. dense_ns: nanoseconds that a dense all-reduce of the gradient takes by other
    means, for "auto", whose dense then has no trials; 0: it is measured.
    adjust: may set every other field of sparsecollParams_t.

    Threads: one at a time, that of the communicator; stats may be called by any.
    Errors: InvalidArgument, Unsupported, OutOfMemory, Mismatch (field says on what), Timeout, PeerFailed, Aborted.
    """

    _name = "reducer"
    _destroy = staticmethod(lib.sparsecollReducerDestroy)

    def __init__(self, communicator: Communicator, n: int, dtype: Any = "float32", *, preset: str = "topka",
                 density: Optional[float] = None, k: Optional[int] = None, op: str = "sum",
                 segments: Optional[Sequence[Union[Segment, int]]] = None, momentum: Optional[float] = None,
                 nesterov: bool = False, clip_norm: Optional[float] = None, residual_decay: Optional[float] = None,
                 error_feedback: bool = True, input_scale: float = 1.0, output_scale: float = 1.0, seed: int = 0,
                 tag: int = 0,
                 max_density: float = 0.0, density_schedule: Sequence[float] = (), schedule_steps: int = 0,
                 transactional: bool = False, residual: Any = None, velocity: Any = None, dense_ns: int = 0,
                 adjust: Optional[Callable[[Any], None]] = None):
        self.communicator = communicator
        self.n = n
        self._type = type_code(dtype)
        params = method_params(preset, density, k, op)
        for field, value in (("momentum", momentum), ("clipNorm", clip_norm), ("residualDecay", residual_decay)):
            if value is not None:
                setattr(params, field, value)
        params.inputScale, params.outputScale = input_scale, output_scale
        params.seed, params.tag = seed, tag
        if nesterov:
            params.flags |= _abi.SPARSECOLL_NESTEROV
        if not error_feedback:
            params.flags |= _abi.SPARSECOLL_NO_RESIDUAL
        if adjust is not None:
            adjust(params)
        config = init(_abi.sparsecollReducerConfig_t)
        tensors = [each if isinstance(each, Segment) else Segment(each) for each in segments or ()]
        if tensors:
            config.segments = (_abi.sparsecollSegment_t * len(tensors))(
                *[_abi.sparsecollSegment_t(each.length, each.density, int(each.dense), 0) for each in tensors])
            config.segmentCount = len(tensors)
        config.maxDensity = max_density
        config.transactional = int(transactional)
        config.denseNs = dense_ns
        if density_schedule:
            config.densitySchedule = (ctypes.c_double * len(density_schedule))(*density_schedule)
            config.densityScheduleCount = len(density_schedule)
            config.scheduleSteps = schedule_steps
        self._vectors = []  # in memory that is not the reducer's
        for name, field, vector in (("residual", "buffer", residual), ("velocity", "velocity", velocity)):
            if vector is not None:
                found = self._callers(name, vector, n * (2 if transactional else 1))
                self._vectors.append(found)
                setattr(config, field, found.address)
        handle = ctypes.c_void_p()
        communicator._check(lib.sparsecollReducerCreate(ctypes.byref(handle), n, self._type, ctypes.byref(params),
                                                        ctypes.byref(config), communicator.handle))
        self._handle = handle.value

    @classmethod
    def _of_handle(cls, handle, communicator, like):
        reducer = cls.__new__(cls)
        reducer._handle, reducer.communicator = handle, communicator
        reducer.n, reducer._type, reducer._vectors = like.n, like._type, []
        return reducer

    def _callers(self, name, vector, length):
        found = span(vector, writable=True)
        wanted = _abi.sparsecollFloat64 if self._type == _abi.sparsecollFloat64 else _abi.sparsecollFloat32
        if found.length != length or found.type != wanted:
            raise InvalidArgument(f"{name} has another length or type than the reducer's")
        _same_place(self.communicator, found)
        return found

    def run(self, gradient: Any, out: Any = None, stream: Optional[int] = None) -> Any:
        """One step: `out` (None: `gradient` itself), which is returned, becomes the sum or average of what was sent.

        gradient, out: n elements of the reducer's type, contiguous, of any shape. stream: of a device, as an address.
        After an error the content of out is unspecified. Collective.
        Errors: InvalidArgument, Mismatch, NonFinite, Timeout, PeerFailed, Aborted, Corrupted.
        """
        source = self._own(gradient, out is None)
        target = source if out is None else self._own(out, True)
        self._check(lib.sparsecollReducerRun(self.handle, source.address, target.address, stream))
        return gradient if out is None else out

    def run_sparse(self, gradient: Any) -> Tuple[Any, Any]:
        """One step with a sparse sum: (indices, values), NumPy arrays of uint32, increasing, and of the reducer's type.
        Host memory. Collective. Errors: as run; Unsupported (the dense collective, devices, bfloat16)."""
        import numpy

        source = self._own(gradient, False)
        if self.communicator.device != _abi.SPARSECOLL_HOST or self._type == _abi.sparsecollBfloat16:
            raise Unsupported("run_sparse returns NumPy arrays: host memory, and no bfloat16")
        room = min(self.n, self.communicator.size * (self.info().capacity + _abi.SPARSECOLL_NON_FINITE_NAMED))
        indices = numpy.empty(room, numpy.uint32)
        values = numpy.empty(room, self._numpy_type(self._type))
        count = ctypes.c_uint64()
        vector = _abi.sparsecollVector_t()
        vector.values, vector.indices, vector.count = values.ctypes.data, indices.ctypes.data, ctypes.pointer(count)
        vector.capacity, vector.length, vector.dataType = room, self.n, self._type
        vector.indexType = _abi.sparsecollIndexU32
        self._check(lib.sparsecollReducerRunSparse(self.handle, source.address, ctypes.byref(vector), None))
        return indices[:count.value], values[:count.value]

    def residual(self) -> Any:
        """A copy of what this rank keeps for later steps, as a NumPy array of n elements of float32 or float64; None
        for a method without one. Errors: Unsupported (devices)."""
        import numpy

        if self.communicator.device != _abi.SPARSECOLL_HOST:
            raise Unsupported("residual copies host memory only; export_state takes any")
        data, n, kind = ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_int()
        check(lib.sparsecollReducerGetResidual(self.handle, ctypes.byref(data), ctypes.byref(n), ctypes.byref(kind)))
        if not data.value:
            return None
        copy = numpy.empty(n.value, self._numpy_type(kind.value))
        ctypes.memmove(copy.ctypes.data, data.value, copy.nbytes)
        return copy

    def give_back(self, out: Any, factor: float = 1.0, stream: Optional[int] = None) -> None:
        """The trainer does not apply the last step: its share of `out`, what run wrote, goes back into the residual.
        factor: what `out` was multiplied by since then. On every rank. Errors: InvalidArgument, Unsupported."""
        source = self._own(out, False)  # held until the call is over
        self._check(lib.sparsecollReducerGiveBack(self.handle, source.address, factor, stream))

    def set_scales(self, input_scale: float, output_scale: float) -> None:
        """From the next step on gradients are multiplied by input_scale and sums by output_scale: 1 / S and S where the
        loss is multiplied by S. On every rank before the same step. Errors: InvalidArgument (0, NaN or Inf)."""
        self._check(lib.sparsecollReducerSetScales(self.handle, input_scale, output_scale))

    def set_density(self, density: float) -> None:
        """Of the next steps, at most max_density. On every rank before the same step.
        Errors: InvalidArgument, InvalidUsage (a schedule that has not ended), Unsupported (the dense collective)."""
        self._check(lib.sparsecollReducerSetDensity(self.handle, density))

    def reset(self, stream: Optional[int] = None) -> None:
        """Forgets residual, velocity, thresholds and iteration. On every rank."""
        self._check(lib.sparsecollReducerReset(self.handle, stream))

    def flush(self, dense: Any, stream: Optional[int] = None) -> Any:
        """Moves the residual into `dense`, n elements of the reducer's type, which is returned: dense += residual."""
        target = self._own(dense, True)
        self._check(lib.sparsecollReducerFlush(self.handle, target.address, stream))
        return dense

    def export_state(self, stream: Optional[int] = None) -> bytes:
        """Residual, velocity, thresholds and iteration of this rank; every rank saves its own."""
        size = ctypes.c_size_t()
        self._check(lib.sparsecollReducerExport(self.handle, None, ctypes.byref(size), stream))
        blob = ctypes.create_string_buffer(size.value)
        self._check(lib.sparsecollReducerExport(self.handle, blob, ctypes.byref(size), stream))
        return blob.raw

    def import_state(self, state: bytes, stream: Optional[int] = None) -> None:
        """Goes on with the bits of export_state of a reducer with the same method, n, type, rank and number of ranks.
        Errors: InvalidArgument (another reducer's), Unsupported (another version's), Corrupted; nothing has changed
        then."""
        self._check(lib.sparsecollReducerImport(self.handle, state, len(state), stream))

    def import_state_from(self, state: bytes, add: Optional[bool], stream: Optional[int] = None) -> None:
        """After a change of the number of ranks: takes over any rank's state. Residual and velocity are added to this
        reducer's (add), replace them (not add), or are left out (None). Those of averages are multiplied, so that the
        averages get from them what they would have got. Errors: as import_state; OutOfMemory."""
        merge = 2 if add is None else int(add)
        self._check(lib.sparsecollReducerImportFrom(self.handle, state, len(state), merge, stream))

    def move(self, communicator: Communicator) -> Tuple[Reducer, bool]:
        """A reducer like this one on a communicator that shrink or split made of this one's, with this rank's residual;
        and whether it has stepped back a step that this rank had completed and others had not (transactional), which
        the trainer then undoes in the model. Collective there. This one stays as it is. Errors: as for a new one."""
        handle, back = ctypes.c_void_p(), ctypes.c_int()
        communicator._check(lib.sparsecollReducerMove(self.handle, communicator.handle, ctypes.byref(handle),
                                                      ctypes.byref(back)))
        return Reducer._of_handle(handle.value, communicator, self), bool(back.value)

    def stats(self) -> Stats:
        """Counters since it was made. Any thread."""
        stats = init(_abi.sparsecollStats_t)
        check(lib.sparsecollReducerGetStats(self.handle, ctypes.byref(stats)))
        return of_struct(Stats, stats)

    def info(self) -> Info:
        """What was decided when it was made."""
        info = init(_abi.sparsecollReducerInfo_t)
        check(lib.sparsecollReducerGetInfo(self.handle, ctypes.byref(info)))
        return of_struct(Info, info)

    def decided(self) -> bool:
        """Whether auto's trials are over, or it has none: the method of `info` runs until the density changes."""
        return not self.info().reason.startswith(_UNDECIDED)

    def _own(self, array, writable):
        found = span(array, writable)
        if found.length != self.n or found.type != self._type:
            raise InvalidArgument(f"an array of {found.length} elements of {_type_name(found.type)} for a reducer of "
                                  f"{self.n} of {_type_name(self._type)}")
        _same_place(self.communicator, found)
        return found

    @staticmethod
    def _numpy_type(code):
        return {_abi.sparsecollFloat16: "float16", _abi.sparsecollFloat32: "float32",
                _abi.sparsecollFloat64: "float64"}[code]

    def _check(self, result):
        check(result, self.communicator._handle)


def _type_name(code):
    return lib.sparsecollDataTypeName(code).decode()

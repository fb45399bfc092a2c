# SPDX-License-Identifier: Apache-2.0
"""Where the elements of an array lie, whoever made it. Nothing is copied, and no array library is imported."""
import ctypes
from typing import Any, NamedTuple

from . import _abi
from ._errors import InvalidArgument, Unsupported

# The names that NumPy and PyTorch have for the types.
TYPES = {
    "float16": _abi.sparsecollFloat16,
    "float32": _abi.sparsecollFloat32,
    "float64": _abi.sparsecollFloat64,
    "bfloat16": _abi.sparsecollBfloat16,
}
BYTES = {_abi.sparsecollFloat16: 2, _abi.sparsecollFloat32: 4, _abi.sparsecollFloat64: 8, _abi.sparsecollBfloat16: 2}


def type_code(dtype) -> int:
    """sparsecollDataType_t of a NumPy or PyTorch type, or of its name."""
    name = str(getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or dtype).rpartition(".")[2]
    if name not in TYPES:
        raise InvalidArgument(f"elements of type {dtype}; float16, bfloat16, float32 and float64 are possible")
    return TYPES[name]


class Span(NamedTuple):
    """length elements of type at address, on the CUDA device of that ordinal, or in host memory (-1)."""

    address: int
    length: int
    type: int
    device: int
    writable: bool
    owner: Any  # keeps the elements where they are


def span(array, writable: bool = False) -> Span:
    """The elements of a contiguous array: NumPy's, or any with DLPack or __cuda_array_interface__.

    Errors: InvalidArgument (not contiguous, another type of elements, read-only although writable is asked for),
    Unsupported (no array, or on a device that is neither the host nor CUDA).
    """
    interface = getattr(array, "__cuda_array_interface__", None)
    if interface is not None:
        found = _of_interface(array, interface, _cuda_device(array))
    elif getattr(array, "__array_interface__", None) is not None:
        found = _of_interface(array, array.__array_interface__, _abi.SPARSECOLL_HOST)
    elif hasattr(array, "__dlpack__"):
        found = _of_dlpack(array)
    else:
        raise Unsupported(f"{type(array).__name__} is no array of NumPy's, with DLPack or __cuda_array_interface__")
    if writable and not found.writable:
        raise InvalidArgument("the array is read-only")
    return found


def _cuda_device(array):
    if hasattr(array, "__dlpack_device__"):
        return int(array.__dlpack_device__()[1])
    return _abi.SPARSECOLL_CURRENT_DEVICE


def _of_interface(array, interface, device):
    if interface["typestr"].startswith(">"):
        raise InvalidArgument("the array's elements have another byte order than this machine's")
    dtype = getattr(array, "dtype", None)
    code = type_code(dtype) if dtype is not None else _type_of_string(interface["typestr"])
    shape, strides = interface["shape"], interface.get("strides")
    if strides is not None and not _contiguous(shape, strides, BYTES[code]):
        raise InvalidArgument("the array is not contiguous")
    address, read_only = interface["data"]
    return Span(address or 0, _product(shape), code, device, not read_only, array)


def _type_of_string(text):
    try:
        return {"<f2": _abi.sparsecollFloat16, "<f4": _abi.sparsecollFloat32, "<f8": _abi.sparsecollFloat64}[text]
    except KeyError:
        raise InvalidArgument(f"elements of type {text}") from None


def _product(shape):
    count = 1
    for extent in shape:
        count *= extent
    return count


def _contiguous(shape, strides, step):
    for extent, stride in zip(reversed(shape), reversed(strides)):
        if extent > 1 and stride != step:
            return False
        step *= extent
    return True


class _DlTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class _DlVersioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _DlTensor),
    ]


# Of DLPack: the version asked for, flags, kinds of devices, and (code, bits) of types.
_DL_VERSION = (1, 0)
_DL_READ_ONLY, _DL_COPIED = 1, 2
_DL_HOST, _DL_CUDA, _DL_PINNED, _DL_MANAGED = 1, 2, 3, 13
_DL_TYPES = {(2, 16): _abi.sparsecollFloat16, (2, 32): _abi.sparsecollFloat32, (2, 64): _abi.sparsecollFloat64,
             (4, 16): _abi.sparsecollBfloat16}
_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype = ctypes.c_void_p
_capsule_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_capsule_name = ctypes.pythonapi.PyCapsule_GetName
_capsule_name.restype = ctypes.c_char_p
_capsule_name.argtypes = [ctypes.py_object]


# Returns the capsule, the tensor in it, and whether what is written there reaches the array: only DLPack 1 tells.
def _exported(array):
    try:
        capsule = array.__dlpack__(max_version=_DL_VERSION)
    except TypeError:
        capsule = array.__dlpack__()
    name = _capsule_name(capsule)
    pointer = _capsule_pointer(capsule, name)
    if name == b"dltensor":
        return capsule, _DlTensor.from_address(pointer), True
    managed = _DlVersioned.from_address(pointer)
    if managed.major != _DL_VERSION[0]:
        raise Unsupported(f"an array of DLPack's version {managed.major}")
    return capsule, managed.tensor, managed.flags & (_DL_READ_ONLY | _DL_COPIED) == 0


def _of_dlpack(array):
    # The capsule is not consumed: it frees what it holds when the span goes.
    capsule, tensor, writable = _exported(array)
    code = _DL_TYPES.get((tensor.code, tensor.bits)) if tensor.lanes == 1 else None
    if code is None:
        raise InvalidArgument("elements of another type than float16, bfloat16, float32 and float64")
    if tensor.device_type in (_DL_HOST, _DL_PINNED):
        device = _abi.SPARSECOLL_HOST
    elif tensor.device_type in (_DL_CUDA, _DL_MANAGED):
        device = tensor.device_id
    else:
        raise Unsupported(f"an array on a device of DLPack's kind {tensor.device_type}")
    shape = [tensor.shape[i] for i in range(tensor.ndim)]
    if tensor.strides and not _contiguous(shape, [tensor.strides[i] for i in range(tensor.ndim)], 1):
        raise InvalidArgument("the array is not contiguous")
    return Span((tensor.data or 0) + tensor.byte_offset, _product(shape), code, device, writable, (array, capsule))

# SPDX-License-Identifier: Apache-2.0
"""Finds and loads libsparsecoll.so.

Looked for, in this order: the file that SPARSECOLL_LIBRARY names; libsparsecoll.so.0 beside this package; the system's,
where the dynamic linker looks.
"""
import ctypes
import os
import pathlib

from . import _abi

_NAME = "libsparsecoll.so.0"


def _version(code):
    return f"{code // 10000}.{code // 100 % 100}.{code % 100}"


VERSION = _version(_abi.SPARSECOLL_VERSION_CODE)


def _find():
    named = os.environ.get("SPARSECOLL_LIBRARY")
    if named:
        return named
    beside = pathlib.Path(__file__).with_name(_NAME)
    return str(beside) if beside.is_file() else _NAME


def load(path=None):
    """The library at path, or the one that is found, with the types of its functions declared.

    Calls release the interpreter's lock. Errors: ImportError (not found, or of another version).
    """
    path = path or _find()
    try:
        library = ctypes.CDLL(path)
        version = library.sparsecollGetVersion()
    except (OSError, AttributeError) as error:
        raise ImportError(f"sparsecoll cannot load {path}: {error}. Name libsparsecoll.so in the environment variable "
                          "SPARSECOLL_LIBRARY, or install it where the dynamic linker looks (LD_LIBRARY_PATH)"
                          ) from error
    # While the major version is 0, another minor version may break programs.
    if version // 100 != _abi.SPARSECOLL_VERSION_CODE // 100 or version < _abi.SPARSECOLL_VERSION_CODE:
        raise ImportError(f"{path} is version {_version(version)}; this package needs {VERSION} or a later "
                          "patch of it")
    for name, (result, arguments) in _abi.FUNCTIONS.items():
        function = getattr(library, name)
        function.restype = result
        function.argtypes = arguments
    return library


lib = load()


def init(struct_type):
    """A struct as SPARSECOLL_INIT makes it."""
    value = struct_type()
    value.structSize = ctypes.sizeof(struct_type)
    value.magic = _abi.SPARSECOLL_MAGIC
    value.headerVersion = _abi.SPARSECOLL_VERSION_CODE
    return value

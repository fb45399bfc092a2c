# SPDX-License-Identifier: Apache-2.0
"""What Python objects that own one of the library's have in common."""
from typing import TypeVar

from ._errors import InvalidUsage, check

_Own = TypeVar("_Own", bound="Handle")


class Handle:
    """Owns an object of the library's until close, the end of a with statement, or its own end."""

    _handle = 0
    _name = ""  # in errors
    _destroy = None  # the library's function

    @property
    def handle(self) -> int:
        """The object as the C functions take it. Errors: InvalidUsage (closed)."""
        if not self._handle:
            raise InvalidUsage(f"the {self._name} is closed")
        return self._handle

    def close(self) -> None:
        """Frees it. May be repeated."""
        handle, self._handle = self._handle, 0
        if handle:
            check(self._destroy(handle))

    def __enter__(self: _Own) -> _Own:
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def __del__(self):
        if self._handle:
            self._destroy(self._handle)

# SPDX-License-Identifier: Apache-2.0
"""In which order a parameter's elements lie in DDP's buckets: in that of its memory, if that has no gaps, as with
channels_last; otherwise in that of its indices. What is saved has the parameter's shape, whatever its memory format."""
from __future__ import annotations

import torch


class Layout:
    """Of one parameter."""

    def __init__(self, parameter: torch.Tensor):
        self.shape = parameter.shape
        order = sorted(range(parameter.dim()), key=lambda dim: (-parameter.stride(dim), dim))
        wide = [dim for dim in order if self.shape[dim] > 1]  # strides of the others say nothing
        expected = 1
        for dim in reversed(wide):
            if parameter.stride(dim) != expected:
                wide = []
                break
            expected *= self.shape[dim]
        narrow = [dim for dim in range(parameter.dim()) if dim not in wide]
        self._order = narrow + wide if wide else list(range(parameter.dim()))

    def flat(self, value: torch.Tensor) -> torch.Tensor:
        """A tensor of the parameter's shape as it lies in a bucket."""
        return value.permute(self._order).reshape(-1)

    def shaped(self, flat: torch.Tensor) -> torch.Tensor:
        """The reverse; contiguous."""
        value = flat.reshape([self.shape[dim] for dim in self._order])
        back = sorted(range(len(self._order)), key=self._order.__getitem__)
        return value.permute(back).contiguous()

"""How each of the authors' programs is called. A driver names its program and says which runs are recorded; its step
takes residual + gradient of a rank and returns the sum of all ranks, the residual left, and the threshold that is then in
the program (nan where it has none)."""
import contextlib
import importlib
import pathlib
import sys

import numpy as np
import torch

# Input, copies of the list of tensors, ranks, density.
EVERYWHERE = [("made", 1, 3, 0.01), ("cnn", 1, 2, 0.01), ("lstm", 1, 4, 0.005)]


def split(vector, tensors):
    return [piece.clone() for piece in torch.split(torch.from_numpy(vector), tensors)]


def joined(tensors):
    return torch.cat([t.reshape(-1) for t in tensors]).numpy()


class Reducer:
    """The reducers of Yoon and Oh: dictionaries of tensors in, averages and memories out."""

    LICENCE = "MIT"
    CASES = EVERYWHERE

    def __init__(self, sources, tensors, density):
        sys.path.insert(0, str(pathlib.Path(sources) / self.REPOSITORY.split("/")[1] / "cnn-lstm"))
        module = importlib.import_module("gradient_reducers")
        # A gigabyte of normal numbers that none of these reducers looks at.
        module.np.random.RandomState = lambda seed: type("None", (), {"randn": lambda self, n: np.zeros(1)})()

        @contextlib.contextmanager
        def timer(*_, **__):
            yield

        name = self.PROGRAM.split()[-1]
        self.reducer = getattr(module, name)(1, torch.device("cpu"), timer, compression=density)
        self.tensors = tensors

    def step(self, acc):
        given = split(acc, self.tensors)
        outs = [torch.zeros_like(t) for t in given]
        memories = [torch.zeros_like(t) for t in given]
        with contextlib.redirect_stdout(None):
            self.reducer.reduce(given, outs, memories)
        return joined(outs), joined(memories), float(getattr(self.reducer, "threshold", float("nan")))


class TopK(Reducer):
    REPOSITORY, COMMIT = "kljp/exdyna", "3295c70"
    PROGRAM = "cnn-lstm/gradient_reducers.py TopKReducer"


class Cltk(Reducer):
    REPOSITORY, COMMIT = "kljp/exdyna", "3295c70"
    PROGRAM = "cnn-lstm/gradient_reducers.py CLTKReducer"


class Micro(Reducer):
    REPOSITORY, COMMIT = "kljp/exdyna", "3295c70"
    PROGRAM = "cnn-lstm/gradient_reducers.py MicroReducer"


class ExDyna(Reducer):
    REPOSITORY, COMMIT = "kljp/exdyna", "3295c70"
    PROGRAM = "cnn-lstm/gradient_reducers.py ExDynaReducer"
    CASES = [("made", 16, 3, 0.01), ("made", 16, 4, 0.002)]  # its blocks are empty in shorter vectors


class Threshold(Reducer):
    REPOSITORY, COMMIT = "kljp/exdyna", "3295c70"
    PROGRAM = "cnn-lstm/gradient_reducers.py ThreshReducer"


class Deft(Reducer):
    REPOSITORY, COMMIT = "kljp/deft", "fc7f76f"
    PROGRAM = "cnn-lstm/gradient_reducers.py DeftReducer"
    CASES = EVERYWHERE + [("cnn", 1, 4, 0.02), ("uneven", 1, 3, 0.02), ("uneven", 1, 4, 0.04)]


class GaussianK:
    """One rank. The program keeps the residual itself; here it is put in front of the program, which starts anew."""

    CASES = [("made", 1, 1, 0.01), ("cnn", 1, 1, 0.01), ("lstm", 1, 1, 0.005), ("made", 60, 1, 0.001)]

    def __init__(self, sources, tensors, density):
        sys.path.insert(0, str(pathlib.Path(sources) / self.FOLDER))
        self.compressor = getattr(importlib.import_module("compression"), self.PROGRAM.split()[-1])
        self.density = density

    def step(self, acc):
        self.compressor.clear()
        given = torch.from_numpy(acc.copy())
        *_, indices, values = self.compressor.compress(given, name="all", ratio=self.density)
        out = np.zeros_like(acc)
        out[indices.long().numpy()] = values.numpy()
        return out, self.compressor.residuals["all"].numpy(), float("nan")


class GaussianKOfShi(GaussianK):
    REPOSITORY, COMMIT, LICENCE, FOLDER = "hclhkbu/GaussianK-SGD", "3da1fb3", "none named", "GaussianK-SGD"
    PROGRAM = "compression.py GaussianCompressor"


class GaussianKOfOkTopk(GaussianK):
    REPOSITORY, COMMIT, LICENCE, FOLDER = "Shigangli/Ok-Topk", "9763dcc", "GPL-3.0", "Ok-Topk/VGG"
    PROGRAM = "compression.py GaussianKCompressor"


DRIVERS = {
    "topk": TopK,
    "cltk": Cltk,
    "micro": Micro,
    "exdyna": ExDyna,
    "threshold": Threshold,
    "deft": Deft,
    "gaussiank": GaussianKOfShi,
    "gaussiank-oktopk": GaussianKOfOkTopk,
}

"""How each of the authors' programs is called. A driver names its program and says which runs are recorded; its step
takes residual + gradient of a rank and returns the sum of all ranks, the residual left, and the threshold that is then in
the program (nan where it has none). Programs over MPI: mpi_drivers.py."""
import contextlib
import importlib
import pathlib
import sys
import types

import numpy as np
import torch

import inputs
import mpi_drivers

# Input, copies of the list of tensors, ranks, density.
# Densities of whole numbers of entries: the programs do not round where the library has k.
ALONE = [("made", 1, 1, 173 / 17306), ("cnn", 1, 1, 173 / 17306), ("lstm", 1, 1, 86 / 17306), ("made", 60, 1, 1038 / 1038360)]
AT_WHOLE_ENTRIES = [("made", 1, 3, 173 / 17306), ("cnn", 1, 2, 173 / 17306), ("lstm", 1, 4, 86 / 17306)]
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

    CASES = ALONE

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


class OfSidco:
    """One rank. The residual is put in front of the program, which keeps none; the number of stages is its own."""

    REPOSITORY, COMMIT, LICENCE = "sands-lab/SIDCo", "197f3c3", "MIT"
    CASES = ALONE

    def __init__(self, sources, tensors, density):
        sys.path.insert(0, str(pathlib.Path(sources) / "SIDCo"))
        self.compressor = getattr(importlib.import_module("compression"), self.PROGRAM.split()[1].rstrip(","))
        self.density = density

    def step(self, acc):
        self.compressor.clear()
        given = torch.from_numpy(acc.copy())
        _, indices, values = self.compressor.compress(given, name="all", ratio=self.density, stages=-1)
        out = np.zeros_like(acc)
        out[indices.numpy()] = values.numpy()
        return out, self.compressor.residuals["all"].numpy(), float("nan")


class SidcoE(OfSidco):
    PROGRAM = "compression.py ExpCompressorEC, stages = -1"


class SidcoGP(OfSidco):
    PROGRAM = "compression.py GammaGParetoCompressorEC, stages = -1"


class SidcoP(OfSidco):
    PROGRAM = "compression.py GParetoCompressorEC, stages = -1"


class RedSync(OfSidco):
    PROGRAM = "compression.py RedSyncCompressor"


class RandomK(OfSidco):
    PROGRAM = "compression.py RandomKCompressor"


class Draws:
    """Stands in for the module random in a program whose draws the library has to repeat: draws as the library makes
    them, by step, rank and number."""

    def __init__(self, rank):
        self.rank_seed = mixed(mixed(0) + rank)
        self.start(0)

    def start(self, step):
        self.seed, self.number = mixed(self.rank_seed + step), 0

    def bits(self, number):
        return mixed(self.seed + number)

    def randrange(self, end):
        self.number += 1
        return (self.bits(self.number - 1) >> 32) * end >> 32

    def randint(self, low, high):
        return low + self.randrange(high - low + 1)


class DrawOfTensor(Draws):
    """One draw a tensor, of more than 32 bits."""

    def randint(self, low, high):
        return low + self.bits(self.number) % (high - low + 1)


def mixed(number):
    return int(inputs.mix_bits(np.array([number % 2**64], np.uint64))[0])


class Dgc:
    """One rank, no momentum. Tensors of one dimension, here those of at most 32 elements, are not given to the
    compressor: the program sends them dense."""

    REPOSITORY, COMMIT, LICENCE = "synxlin/deep-gradient-compression", "24673d4", "Apache-2.0"
    PROGRAM = "dgc/compression.py DGCCompressor"
    CASES = [*ALONE[:3], ("made", 16, 1, 553 / 276896)]

    def __init__(self, sources, tensors, density):
        sys.path.insert(0, str(pathlib.Path(sources) / "deep-gradient-compression"))
        horovod = types.ModuleType("horovod.torch")
        horovod.size, horovod.rank = (lambda: 1), (lambda: 0)
        operations = types.ModuleType("horovod.torch.mpi_ops")
        for name in ("Average", "allreduce_async_", "allgather_async", "synchronize"):
            setattr(operations, name, None)
        sys.modules.update({"horovod": types.ModuleType("horovod"), "horovod.torch": horovod})
        sys.modules["horovod.torch.mpi_ops"] = operations
        sys.modules["dgc"] = types.ModuleType("dgc")  # its __init__ imports parts that need horovod itself
        sys.modules["dgc"].__path__ = [str(pathlib.Path(sources) / "deep-gradient-compression" / "dgc")]
        module = importlib.import_module("dgc.compression")
        self.draws = module.random = DrawOfTensor(0)
        self.steps = 0
        self.tensors = tensors
        self.compressor = module.DGCCompressor(density)
        with contextlib.redirect_stdout(None):
            self.compressor.initialize([(t, torch.zeros(n)) for t, n in enumerate(tensors) if n > 32])

    def step(self, acc):
        self.draws.start(self.steps)
        self.steps += 1
        outs, residuals = [], []
        for t, given in enumerate(split(acc, self.tensors)):
            out, residual = given.clone(), torch.zeros_like(given)
            self.draws.number = t
            if t in self.compressor.attributes:
                (values, indices), _ = self.compressor.compress(given, t)
                out = torch.zeros_like(given)
                out[indices.view(-1)] = values.view(-1)
                residual = given.clone()
                residual[indices.view(-1)] = 0
            outs.append(out)
            residuals.append(residual)
        return joined(outs), joined(residuals), float("nan")


class SageOfExDyna(Reducer):
    REPOSITORY, COMMIT = "kljp/exdyna", "3295c70"
    PROGRAM = "cnn-lstm/gradient_reducers.py SageReducer"
    CASES = AT_WHOLE_ENTRIES

    def __init__(self, sources, tensors, density):
        super().__init__(sources, tensors, density)
        self.draws = sys.modules["gradient_reducers"].random = Draws(torch.distributed.get_rank())
        self.steps = 0

    def step(self, acc):
        self.draws.start(self.steps)
        self.steps += 1
        return super().step(acc)


class SageOfPaper(SageOfExDyna):
    """Its user's first threshold is the program's own default, 0.5."""

    REPOSITORY, COMMIT = "kljp/sage", "6ce7d31"


DRIVERS = {
    "topk": TopK,
    "cltk": Cltk,
    "micro": Micro,
    "exdyna": ExDyna,
    "threshold": Threshold,
    "deft": Deft,
    "gaussiank": GaussianKOfShi,
    "gaussiank-oktopk": GaussianKOfOkTopk,
    "sidco-e": SidcoE,
    "sidco-gp": SidcoGP,
    "sidco-p": SidcoP,
    "redsync": RedSync,
    "randomk": RandomK,
    "dgc": Dgc,
    "sage-exdyna": SageOfExDyna,
    "sage": SageOfPaper,
    **mpi_drivers.DRIVERS,
}

"""How the authors' programs that talk MPI are called, like those in drivers.py: every rank is a process of mpirun's. Their
reducer is a loop over a queue of tensors; a step queues one tensor and the word that ends the loop."""
import contextlib
import importlib
import logging
import pathlib
import queue
import sys
import threading

import numpy as np
import torch


class AllReducer:
    MPI = True

    def __init__(self, sources, tensors, density):
        sys.path.insert(0, str(pathlib.Path(sources) / self.FOLDER))
        np.int = int  # NumPy had it when the programs were written
        # What they do with a GPU, on the CPU.
        torch.Tensor.cuda = lambda tensor, *_, **__: tensor
        torch.cuda.synchronize = lambda: None
        logging.raiseExceptions = False
        importlib.import_module("settings").logger.setLevel(logging.ERROR)
        self.compression = importlib.import_module("compression")
        self.n = sum(tensors)
        self.given, self.done = queue.Queue(), queue.Queue()
        with contextlib.redirect_stdout(None):
            self.reducer = importlib.import_module("allreducer").AllReducer(
                [("all", torch.zeros(self.n, requires_grad=True))],
                threading.Lock(),
                threading.Lock(),
                self.compression.compressors[self.COMPRESSOR],
                sparse=True,
                density=density,
                train_epoch=2,  # after the warm-up of those that have one
                msg_queue=self.given,
                msg_queue2=self.done,
            )
        self.reducer._profiling = False

    def reduced(self, acc):
        self.reducer.add_tensor("all", torch.from_numpy(acc.copy()))
        self.given.put("all")
        self.given.put("STOP")
        with contextlib.redirect_stdout(None):
            self.reducer.run()
        return self.reducer.get_result("all").numpy().reshape(-1)[: self.n].copy()

    def step(self, acc):
        residuals = self.compression.compressors[self.COMPRESSOR].residuals
        residuals.clear()
        out = self.reduced(acc)
        return out, residuals["all"].numpy().copy(), float("nan")


class GTopK(AllReducer):
    REPOSITORY, COMMIT, LICENCE, FOLDER = "hclhkbu/gtopkssgd", "6f57343", "Apache-2.0", "gtopkssgd"
    PROGRAM, COMPRESSOR = "allreducer.py AllReducer, gtopk", "gtopk"
    CASES = [("made", 1, 2, 0.01), ("cnn", 1, 4, 0.01), ("lstm", 1, 4, 0.005)]


class OkTopK(AllReducer):
    """The program is dense in its first 512 steps; the runs begin after them."""

    REPOSITORY, COMMIT, LICENCE, FOLDER = "Shigangli/Ok-Topk", "9763dcc", "GPL-3.0", "Ok-Topk/VGG"
    PROGRAM, COMPRESSOR = "VGG/allreducer.py AllReducer, oktopk, from step 512", "oktopk"
    CASES = [("made", 1, 2, 0.01), ("made", 1, 4, 0.01), ("cnn", 1, 3, 0.01), ("lstm", 1, 4, 0.005)]

    def __init__(self, sources, tensors, density):
        super().__init__(sources, tensors, density)
        self.reducer._allreduce_counter["all"] = 512


class SparDL(AllReducer):
    REPOSITORY, COMMIT, LICENCE, FOLDER = "MachineLearningSystem/SparDL", "3335551", "none named", "SparDL"
    PROGRAM, COMPRESSOR = "allreducer.py AllReducer, spardl", "spardl"
    CASES = [("made", 1, 2, 0.01), ("made", 1, 3, 0.01), ("cnn", 1, 4, 0.01), ("lstm", 1, 4, 0.005)]

    def step(self, acc):
        self.reducer._local_residual = None
        return self.reduced(acc), self.reducer._local_residual.reshape(-1)[: self.n].numpy().copy(), float("nan")


class SparDLOfTeams(SparDL):
    """Teams are a number in the program's constructor; it is set afterwards, and the constructor's calls that follow it
    are made again."""

    PROGRAM = "allreducer.py AllReducer, spardl, Group_num = 2"
    CASES = [("made", 1, 4, 0.01), ("made", 1, 6, 0.02), ("cnn", 1, 4, 0.01)]

    def __init__(self, sources, tensors, density):
        super().__init__(sources, tensors, density)
        reducer = self.reducer
        reducer.Group_num = 2
        positions = reducer.num_workers = reducer.size() // 2
        reducer._spar_local_threshold = torch.empty(positions)
        with contextlib.redirect_stdout(None):
            reducer._generate_arange_groups()
            reducer.init_send_info()
        for name, kind in (("rindex", np.int32), ("rvalue", np.float32)):
            buffers = [np.zeros(reducer.chunck_size, kind) for _ in range(positions)]
            setattr(reducer, f"allgather_{name}_buffers", buffers)
        reducer.allgather_rsize_buffers = [np.zeros(1, np.int32) for _ in range(positions)]


DRIVERS = {"gtopk": GTopK, "oktopk": OkTopK, "spardl": SparDL, "spardl-bsag": SparDLOfTeams}

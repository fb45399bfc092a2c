"""The files of examples/kubernetes: the image takes packages and options that the sources have, and the script of the
TrainJob runs on this host, in as many processes as the job has nodes.

usage: kubernetes_test.py ROOT PROGRAMS     PROGRAMS: the folder with sparsecoll-perf and sparsecoll-flight
Skipped (77) without PyYAML."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

try:
    import yaml
except ImportError:
    print("skipped: Python has no PyYAML (python3-yaml)")
    sys.exit(77)

ROOT = pathlib.Path(sys.argv[1])
PROGRAMS = pathlib.Path(sys.argv[2])
FOLDER = ROOT / "examples/kubernetes"
INSTRUCTIONS = {"FROM", "RUN", "COPY", "ENV", "USER", "WORKDIR", "CMD"}

sys.path.insert(0, str(ROOT / "tests/python"))
import launch  # pylint: disable=wrong-import-position


def instructions():
    """(name, arguments) of each instruction of the Dockerfile, its lines joined."""
    text = re.sub(r"^#.*\n", "", (FOLDER / "Dockerfile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    text = text.replace("\\\n", " ")
    return [tuple(line.split(None, 1)) for line in text.splitlines() if line.strip()]


class Image(unittest.TestCase):
    def test_instructions_are_known_and_stages_are_there(self):
        stages = set()
        for name, arguments in instructions():
            self.assertIn(name, INSTRUCTIONS)
            if name == "FROM" and " AS " in arguments:
                stages.add(arguments.split(" AS ")[1])
            for stage in re.findall(r"--from=(\S+)", arguments):
                self.assertIn(stage, stages)
        self.assertEqual([name for name, _ in instructions()].count("FROM"), 2)
        self.assertEqual(instructions()[-1][0], "CMD")

    def test_packages_to_build_with_are_those_of_setup(self):
        setup = (ROOT / "scripts/setup").read_text(encoding="utf-8")
        required = re.search(r"^required=\((.*?)\)", setup, re.MULTILINE | re.DOTALL)[1].split()
        optional = re.findall(r"^  \[(\S+)\]=", setup, re.MULTILINE)
        first = next(arguments for name, arguments in instructions() if name == "RUN")
        packages = [word for word in first.split("install", 1)[1].split() if not word.startswith("-")]
        self.assertLessEqual(set(required), set(packages))
        self.assertLessEqual(set(packages), set(required) | set(optional))

    def test_options_of_cmake_are_those_of_the_sources(self):
        options = (ROOT / "cmake/options.cmake").read_text(encoding="utf-8")
        named = [option for _, arguments in instructions() for option in re.findall(r"-D(SPARSECOLL_\w+)=", arguments)]
        self.assertTrue(named)
        for option in named:
            self.assertIn(f"option({option} ", options)


class Job(unittest.TestCase):
    def setUp(self):
        self.job = yaml.safe_load((FOLDER / "trainjob.yaml").read_text(encoding="utf-8"))

    def test_it_is_a_train_job(self):
        self.assertEqual(self.job["apiVersion"], "trainer.kubeflow.org/v1alpha1")
        self.assertEqual(self.job["kind"], "TrainJob")
        self.assertLessEqual(set(self.job), {"apiVersion", "kind", "metadata", "spec"})
        self.assertLessEqual(set(self.job["spec"]), {"runtimeRef", "trainer"})
        self.assertLessEqual(set(self.job["spec"]["trainer"]), {"image", "command", "args", "env", "numNodes",
                                                               "numProcPerNode", "resourcesPerNode"})
        documented = (ROOT / "docs/guide/errors.md").read_text(encoding="utf-8")
        for variable in self.job["spec"]["trainer"]["env"]:
            self.assertIn(f"`{variable['name']}`", documented)

    def start(self, change, folder):
        trainer = self.job["spec"]["trainer"]
        script = change(trainer["args"][0])
        port = str(launch.free_port())
        ranks = []
        for node in range(trainer["numNodes"]):
            variables = {name: value for name, value in os.environ.items() if name in ("HOME", "LD_LIBRARY_PATH")}
            variables.update({variable["name"]: variable["value"] for variable in trainer["env"]})
            variables.update(PATH=f"{PROGRAMS}:{os.environ['PATH']}", PET_NODE_RANK=str(node), PET_MASTER_PORT=port,
                             PET_NNODES=str(trainer["numNodes"]), PET_MASTER_ADDR="127.0.0.1",
                             SPARSECOLL_FLIGHT_DIR=folder)
            ranks.append(subprocess.Popen([*trainer["command"], script], env=variables, text=True,
                                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT))
        outputs = [rank.communicate(timeout=120)[0] for rank in ranks]
        return [rank.returncode for rank in ranks], outputs

    def test_its_script_runs(self):
        with tempfile.TemporaryDirectory() as folder:
            codes, outputs = self.start(lambda script: script.replace("-b 16M", "-b 64k -n 3"), folder)
        self.assertEqual(codes, [0] * len(codes), outputs)
        self.assertIn("topka", outputs[0])

    def test_a_rank_that_fails_shows_its_operations(self):
        recording = {"format": "sparsecoll-flight", "formatVersion": 1, "communicator": "c", "name": "x", "rank": 1,
                     "ranks": 4, "host": "h", "pid": 12, "transport": "tcp", "writtenNs": 99, "failure": None,
                     "entries": []}
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "sparsecoll-flight-c.json").write_text(json.dumps(recording), encoding="utf-8")
            codes, outputs = self.start(lambda script: re.sub("sparsecoll-perf .*&&", "(exit 7) &&", script), folder)
        self.assertEqual(codes, [7] * len(codes), outputs)
        for output in outputs:
            self.assertIn("ranks 0, 2, 3 left no file", output)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])

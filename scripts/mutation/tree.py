"""A copy of the source tree with all mutants in it, and its build. What does not compile is left out."""
import json
import os
import pathlib
import re
import shlex
import shutil
import struct
import subprocess
import sys

from .equivalents import key
from .programs import ONLY_WITH_DEVICES, at_once, linked_with, targets, tests_of
from .sites import File

HERE = pathlib.Path(__file__).resolve().parent
ERROR = re.compile(r"^(?P<file>[^\s:][^:\n]*):(?P<line>\d+):(?P<column>\d+): (?:fatal )?error:", re.M)
NOTE = re.compile(r"(?:^|^ .* at )(?P<file>[^\s:][^:\n]*):(?P<line>\d+):(?P<column>\d+):", re.M)
MOST_ROUNDS = 25


def files_of(root):
    """What is, or could be, committed; all files where there is no git to ask."""
    if (root / ".git").exists():
        listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=root,
                                check=True, capture_output=True, text=True).stdout
        return [name for name in listed.split("\0") if name and (root / name).is_file()]
    return [str(path.relative_to(root)) for path in sorted(root.rglob("*"))
            if path.is_file() and path.relative_to(root).parts[0] != "build"]


def parsed(root, folders):
    """name -> File with its choices numbered, the same for the same tree."""
    files = {}
    number = 0
    for name in sorted(files_of(root)):
        if name.endswith((".cpp", ".h")) and name.split("/")[0] in folders and name not in ONLY_WITH_DEVICES:
            file = File((root / name).read_text())
            for site in file.sites:
                site.first = number
                number += len(site.choices)
            files[name] = file
    return files, number


def mutants_of(files):
    """number -> what is told of a mutant."""
    told = {}
    for name, file in files.items():
        for site in file.sites:
            for n, (_, before, after) in enumerate(site.choices):
                told[site.first + n] = {"file": name, "line": file.line(site.at), "function": site.function,
                                        "before": before, "after": after}
    return told


def write_changed(path, text):
    """Leaves a file alone that has this text, so that nothing is compiled again for it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(text, str):
        text = text.encode()
    if not path.is_file() or path.read_bytes() != text:
        path.write_bytes(text)


class Tree:
    def __init__(self, options):
        self.root, self.out = options.root, options.out
        self.tree, self.build = self.out / "tree", self.out / "build"
        self.options = options
        self.files, self.count = parsed(self.root, options.folders)
        self.spans = {}

    def copy(self):
        wanted = set(files_of(self.root))
        for path in list(self.tree.rglob("*")) if self.tree.exists() else []:
            if path.is_file() and str(path.relative_to(self.tree)) not in wanted:
                path.unlink()
        for name in wanted - set(self.files):
            if not name.startswith("scripts/mutation/"):
                write_changed(self.tree / name, (self.root / name).read_bytes())
                shutil.copymode(self.root / name, self.tree / name)

    def write(self):
        for name, file in self.files.items():
            text, spans = file.rendered(HERE / "mutant.h")
            starts = [0] + [found.end() for found in re.finditer("\n", text)]
            self.spans[name] = (starts, spans)
            write_changed(self.tree / name, text)

    def configure(self):
        subprocess.run(["cmake", "-G", "Ninja", "-S", self.tree, "-B", self.build, "-DCMAKE_BUILD_TYPE=Mutants",
                        "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON",
                        "-DCMAKE_CXX_FLAGS=-O1 -DNDEBUG -w -Wno-narrowing",
                        *self.options.cmake], check=True, stdout=subprocess.DEVNULL)

    def targets(self):
        built = set(self.built())
        return [name for name in targets(self.build, self.options.targets) if name not in built]

    def built(self):
        """Programs of an earlier build that only have to be given the altered library."""
        options = self.options
        return linked_with(options.built, "libsparsecoll.so", options.targets) if options.built else []

    def tests(self):
        """By name: a test that both builds have is run where all its programs are."""
        tests = {test.name: test for test in tests_of(self.build, self.targets())}
        if self.options.built:
            for test in tests_of(self.options.built, self.built()):
                test.environment["LD_LIBRARY_PATH"] = str(self.build / "lib")
                tests[test.name] = test
        return list(tests.values())

    def make(self):
        """Builds the library, and if that goes the programs: whether it went, and what the compiler said."""
        for wanted in (self.options.libraries, self.targets()):
            command = ["nice", "-n", "5", "ninja", "-C", self.build, "-j", str(self.options.jobs), "-k", "0", *wanted]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode != 0 or not self.targets():
                break
        return done.returncode == 0, done.stdout + done.stderr

    def check(self):
        """What the compiler says of all files of a folder at once: quick, and before anything is built. It may also
        complain that files use a name twice, which is none of the places."""
        commands = json.loads((self.build / "compile_commands.json").read_text())
        files, flags = {}, {}
        for command in commands:
            source = pathlib.Path(command["file"])
            sources = [source]
            if "Unity" in source.parts:
                sources = [pathlib.Path(name) for name in re.findall(r'#include "(.*)"', source.read_text())]
            names = {os.path.relpath(name, self.tree) for name in sources} & set(self.files)
            if names:
                folder = min(names).split("/")[0]
                files.setdefault(folder, set()).update(names)
                words = shlex.split(command["command"])
                kept = flags.setdefault(folder, {})
                for n, word in enumerate(words):
                    if word == "-isystem":
                        kept[f"{word} {words[n + 1]}"] = (word, words[n + 1])
                    elif re.match(r"-[DIm]|-std", word):
                        kept[word] = (word,)
        logs = []

        def one(folder):
            source = self.out / f"all_{folder}.cpp"
            source.write_text("".join(f'#include "{self.tree / name}"\n' for name in sorted(files[folder])))
            options = [word for words in flags[folder].values() for word in words]
            return subprocess.run(["nice", "-n", "5", "c++", "-fsyntax-only", "-w", "-Wno-narrowing", *options, source],
                                  cwd=self.build, capture_output=True, text=True).stderr

        logs += at_once(self.options.jobs, one, files)
        return "".join(logs)

    def places(self, found, whole_line=False):
        """The innermost site around an error; or the sites of its line."""
        path = pathlib.Path(os.path.normpath(os.path.join(self.build, found["file"])))
        name = os.path.relpath(path, self.tree)
        if name not in self.spans:
            return set()
        starts, spans = self.spans[name]
        low = starts[int(found["line"]) - 1]
        if whole_line:
            high = starts[int(found["line"])] if int(found["line"]) < len(starts) else sys.maxsize
            return {first for begin, _, first in spans if low <= begin < high}
        # The compiler counts bytes in a column; the sources are plain enough.
        offset = low + int(found["column"]) - 1
        around = [(end - begin, first) for begin, end, first in spans if begin <= offset < end]
        return {min(around)[1]} if around else set()

    def swapped_before(self, found, dropped):
        """The last two statements before an error that may have changed places, which hides what one of them declares."""
        path = pathlib.Path(os.path.normpath(os.path.join(self.build, found["file"])))
        name = os.path.relpath(path, self.tree)
        if name not in self.spans:
            return set()
        starts, spans = self.spans[name]
        swaps = {site.first for site in self.files[name].sites if site.order} - dropped
        before = [(end, first) for _, end, first in spans if first in swaps and end <= starts[int(found["line"]) - 1]]
        return {max(before)[1]} if before else set()

    def faulty(self, log, dropped):
        """The sites that do not compile: those that errors name, else those in lines of errors, as where a function
        wants a constant, else those in the lines around an error, else statements before it."""
        for pattern, whole_line in ((ERROR, False), (ERROR, True), (NOTE, False), (NOTE, True)):
            found = set().union(*(self.places(place, whole_line) for place in pattern.finditer(log))) - dropped
            if found:
                return found
        return set().union(*(self.swapped_before(place, dropped) for place in ERROR.finditer(log)))

    def compile(self, say):
        # By their texts, which outlive a change of the tree.
        told = mutants_of(self.files)
        texts = {tuple(text) for text in self.known("dropped.json", [])}
        dropped = {number for number, mutant in told.items() if key(mutant) in texts}
        self.copy()
        checked = bool(texts)  # what was dropped before has made the copy compile, or nearly
        for _ in range(MOST_ROUNDS):
            for file in self.files.values():
                file.drop(dropped)
            self.write()
            self.configure()
            done = False
            if not checked:
                log = self.check()
                checked = not self.faulty(log, dropped)
            if checked:
                done, log = self.make()
            (self.out / "build.log").write_text(log)
            if done:
                break
            more = self.faulty(log, dropped)
            say(f"{len(more)} places do not compile and are left as they are")
            if not more:
                raise SystemExit(f"mutate: the copy does not compile: {self.out / 'build.log'}")
            dropped |= more
            texts |= {key(told[number]) for number in more}
            (self.out / "dropped.json").write_text(json.dumps(sorted(texts), indent=0))
        else:
            raise SystemExit("mutate: the copy does not compile")

    def known(self, name, otherwise):
        path = self.out / name
        return json.loads(path.read_text()) if path.is_file() else otherwise

    def compiled(self):
        """The numbers of the mutants that the library has code of."""
        numbers = set()
        for library in self.options.libraries:
            section = self.out / "section"
            subprocess.run(["objcopy", "--dump-section", f".sparsecoll_mutants={section}", self.build / library,
                            "/dev/null"], check=True)
            data = section.read_bytes()
            numbers.update(struct.unpack(f"<{len(data) // 4}i", data))
            section.unlink()
        return numbers

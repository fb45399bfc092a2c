"""Which tests reach which mutants, and whether they notice."""
import collections
import dataclasses
import hashlib
import json
import tempfile
import threading
import time

from .equivalents import key
from .programs import SKIPPED, at_once

FACTOR, AT_LEAST = 8, 10  # of a test's usual seconds, and seconds: whoever takes longer hangs
# (longest test, seconds of tests for one mutant), in seconds: short tests notice most, so that the long ones, which take
# most of the time, are only run for what those left.
ROUNDS = [(5, 30), (20, 120), (900, float("inf"))]
SURVIVED, KILLED, OPEN = "survived", "killed", "open"


def hangs(test, limit, number, nice):
    """Whether a timeout was the mutant's doing: a busy machine is slow without it as well."""
    _, seconds = test.run(10 * limit, nice)
    longer = FACTOR * seconds + AT_LEAST
    return longer <= limit or test.run(longer, nice, SPARSECOLL_MUTANT=str(number))[0] is None


def read(path):
    return list(map(json.loads, path.read_text().splitlines())) if path.is_file() else []


def record(tree, longest, say):
    """Runs every test that is not longer, once: how long it takes, and what it reaches. A test that fails or skips is not
    asked again."""
    path = tree.out / "reached.jsonl"
    known = {entry["test"]: entry for entry in read(path)}
    tests = tree.tests()

    def is_open(test):
        entry = known.get(test.name)
        return entry is None or entry["status"] is None and entry["seconds"] < longest

    def run(test):
        with tempfile.NamedTemporaryFile(dir=tree.out, prefix="reached-") as file:
            file.truncate(tree.count + 1)
            status, seconds = test.run(longest, tree.options.nice, SPARSECOLL_REACHED=file.name)
            reached = [n for n, byte in enumerate(file.read()) if byte]
        return {"test": test.name, "status": status, "seconds": round(seconds, 3), "reached": reached}

    todo = [test for test in tests if is_open(test)]
    if todo:
        say(f"{len(todo)} tests are run for up to {longest} s to see what they reach")
    with open(path, "a") as out:
        for entry in at_once(tree.options.jobs, run, todo):
            known[entry["test"]] = entry
            out.write(json.dumps(entry) + "\n")
            out.flush()
            if entry["status"] not in (0, SKIPPED, None):
                say(f"{entry['test']} fails without a mutant, status {entry['status']}: left out")
    good = [test for test in tests if known[test.name]["status"] == 0]
    for test in good:
        test.seconds = known[test.name]["seconds"]
        test.reached = frozenset(known[test.name]["reached"])
    say(f"{len(good)} tests, {sum(test.seconds for test in good):.0f} s")
    return good


class Odds:
    """How many mutants each test has noticed of those that it was asked about, by which the next test is chosen."""

    def __init__(self, entries):
        self.lock = threading.Lock()
        self.asked, self.noticed = collections.Counter(), collections.Counter()
        for entry in entries:
            self.asked.update(entry["passed"])
            if "by" in entry:
                self.count(entry["by"], True)

    def count(self, name, noticed):
        with self.lock:
            self.asked[name] += 1
            self.noticed[name] += noticed

    def per_second(self, test):
        return (self.noticed[test.name] + 1) / (self.asked[test.name] + 20) / (test.seconds + 0.1)


@dataclasses.dataclass
class Trial:
    """What became of one mutant so far."""
    number: int
    passed: list = dataclasses.field(default_factory=list)  # names of the tests that did not notice
    spent: float = 0
    result: str = OPEN
    how: str = ""
    by: str = ""

    def entry(self, told):
        found = {"number": self.number, **told, "result": self.result, "how": self.how, "passed": self.passed,
                 "spent": round(self.spent, 1)}
        return {**found, "by": self.by} if self.by else found

    def ask(self, test, nice):
        """Whether the test notices."""
        limit = FACTOR * test.seconds + AT_LEAST
        status, seconds = test.run(limit, nice, SPARSECOLL_MUTANT=str(self.number))
        self.spent += seconds
        if status is None and hangs(test, limit, self.number, nice):
            self.how = "timeout"
        elif status not in (None, 0, SKIPPED):
            # Once more: a busy machine may have failed it.
            again, seconds = test.run(limit, nice, SPARSECOLL_MUTANT=str(self.number))
            self.spent += seconds
            if again not in (0, SKIPPED):
                self.how = "signal" if status < 0 else "failure"
        return self.how != ""

    def go_on(self, tests, budget, end, odds, last, nice):
        """Asks tests until one notices, all have been asked, the budget is spent, or the time is over."""
        reaching = [test for test in tests if self.number in test.reached]
        left = {test.name: test for test in reaching if test.name not in set(self.passed)}
        while left and self.spent < budget and time.monotonic() < end:
            test = left.pop(max(left, key=lambda name: odds.per_second(left[name])))
            noticed = self.ask(test, nice)
            odds.count(test.name, noticed)
            if noticed:
                self.result, self.by = KILLED, test.name
                return
            self.passed.append(test.name)
        if last and not left:
            self.result = SURVIVED
            self.how = f"all {len(reaching)} tests pass" if reaching else "no test reaches it"
        else:
            self.how = f"{len(self.passed)} tests pass, then the time was over"


def draw(numbers, told, seed, count):
    """By their texts: who is not drawn any more, as what is equivalent, leaves the others of a seed as they were."""
    def place(number):
        return hashlib.sha256(repr((seed, *key(told[number]))).encode()).digest()
    return sorted(sorted(numbers), key=place)[:count]


def run(tree, drawn, told, seed, say):
    """A line of JSON for each drawn mutant and each round; what an earlier call has done is not done again."""
    path = tree.out / f"results-{seed}.jsonl"
    entries = {entry["number"]: entry for entry in read(path)}
    end = time.monotonic() + 60 * tree.options.minutes
    odds = Odds(entries.values())
    lock = threading.Lock()

    for longest, budget in ROUNDS:
        budget = min(budget, tree.options.budget)
        todo = [number for number in drawn if number not in entries or entries[number]["result"] == OPEN]
        if not todo or time.monotonic() >= end:
            break
        tests = record(tree, longest, say)

        def one(number):
            if time.monotonic() >= end:
                return None
            before = entries.get(number, {"passed": [], "spent": 0})
            trial = Trial(number, before["passed"], before["spent"])
            trial.go_on(tests, budget, end, odds, longest == ROUNDS[-1][0], tree.options.nice)
            entry = trial.entry(told[number])
            with lock, open(path, "a") as out:
                out.write(json.dumps(entry) + "\n")
            return entry

        def left(number):
            passed = set(entries[number]["passed"]) if number in entries else ()
            return sum(test.seconds for test in tests if number in test.reached and test.name not in passed)

        say(f"{len(todo)} mutants are tried by tests of up to {longest} s")
        for entry in at_once(tree.options.jobs, one, sorted(todo, key=left)):
            if entry is None:
                continue
            entries[entry["number"]] = entry
            killed = sum(other["result"] == KILLED for other in entries.values())
            say(f"{killed} killed; {entry['result']} ({entry['how']}, {entry['spent']} s) "
                f"{entry['file']}:{entry['line']} {entry['after']}")
    return [entries.get(number) or Trial(number, how="no test was asked").entry(told[number]) for number in drawn]

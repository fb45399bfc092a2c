"""Which tests reach which mutants, and whether they notice.

First each mutant alone meets short tests, before others those that have noticed most in their time. The few that are
left meet every other test that reaches them together: where it passes, it has noticed none of them, and where it fails,
each half of them meets it, down to the one that it notices. So a long test is run a few times, not once for each mutant.
"""
import collections
import hashlib
import json
import tempfile
import threading
import time

from .equivalents import key
from .programs import SKIPPED, at_once

FACTOR, AT_LEAST = 8, 10  # of a test's usual seconds, and seconds: whoever takes longer hangs
SHORT, ALONE = 5, 10  # seconds of a test that a mutant may meet alone, and of all of them
LONGEST = 900
SURVIVED, KILLED, OPEN = "survived", "killed", "open"


def read(path):
    return list(map(json.loads, path.read_text().splitlines())) if path.is_file() else []


def draw(numbers, told, seed, count):
    """By their texts: who is not drawn any more, as what is equivalent, leaves the others of a seed as they were."""
    def place(number):
        return hashlib.sha256(repr((seed, *key(told[number]))).encode()).digest()
    return sorted(sorted(numbers), key=place)[:count]


class Tests:
    """What tests take and reach, as far as they were run without a mutant that they notice."""

    def __init__(self, tree, say):
        self.tree, self.say = tree, say
        self.path = tree.out / "reached.jsonl"
        self.all = tree.tests()
        self.lock = threading.Lock()
        self.known = {}
        for entry in read(self.path):
            self.learn(entry)

    def learn(self, entry):
        self.known[entry["test"]] = {**entry, "reached": frozenset(entry["reached"])}

    def seconds(self, test):
        return self.known[test.name]["seconds"]

    def good(self, test):
        return test.name in self.known and self.known[test.name]["status"] == 0

    def open(self, test):
        """Whether it was not run to its end yet."""
        entry = self.known.get(test.name)
        return entry is None or entry["status"] is None and entry["seconds"] < LONGEST

    def reaches(self, test, number):
        return number in self.known[test.name]["reached"]

    def record(self, test, longest, numbers=()):
        """The exit status of a run with these mutants. A run that fails because of them tells nothing of the test."""
        with tempfile.NamedTemporaryFile(dir=self.tree.out, prefix="reached-") as file:
            file.truncate(self.tree.count + 1)
            status, seconds = test.run(longest, self.tree.options.nice, SPARSECOLL_REACHED=file.name,
                                       SPARSECOLL_MUTANT=",".join(map(str, numbers)))
            reached = [n for n, byte in enumerate(file.read()) if byte]
        if not numbers or status in (0, SKIPPED):
            entry = {"test": test.name, "status": status, "seconds": round(seconds, 3), "reached": reached}
            with self.lock, open(self.path, "a") as out:
                self.learn(entry)
                out.write(json.dumps(entry) + "\n")
            if status not in (0, SKIPPED, None):
                self.say(f"{test.name} fails without a mutant, status {status}: left out")
        return status


class Trials:
    def __init__(self, tree, tests, drawn, told, seed, say):
        self.tree, self.tests, self.drawn, self.told, self.say = tree, tests, drawn, told, say
        self.path = tree.out / f"asked-{seed}.jsonl"
        self.end = time.monotonic() + 60 * tree.options.minutes
        self.lock = threading.Lock()
        self.passed = {number: set() for number in drawn}
        self.killed = {}  # number -> (by which test, how)
        self.asked, self.noticed = collections.Counter(), collections.Counter()
        for event in read(self.path):
            self.learn(event)

    def learn(self, event):
        for number in event["passed"]:
            self.passed.setdefault(number, set()).add(event["test"])
        self.asked[event["test"]] += 1
        if "killed" in event:
            self.killed.setdefault(event["killed"], (event["test"], event["how"]))
            self.noticed[event["test"]] += 1

    def tell(self, **event):
        with self.lock, open(self.path, "a") as out:
            self.learn(event)
            out.write(json.dumps(event) + "\n")
        if "killed" in event:
            mutant = self.told[event["killed"]]
            self.say(f"{len(self.killed)} of {len(self.drawn)} killed: {mutant['file']}:{mutant['line']} "
                     f"{mutant['after']} ({event['how']} of {event['test']})")

    def over(self):
        return time.monotonic() >= self.end

    def left(self, test, numbers):
        """Those of the mutants that have yet to meet the test."""
        return [number for number in numbers if number not in self.killed and test.name not in self.passed[number] and
                (not self.tests.good(test) or self.tests.reaches(test, number))]

    def ask(self, test, numbers):
        """How the test notices that one of the mutants is there, or "", and the seconds that this took."""
        nice = self.tree.options.nice
        mutants = ",".join(map(str, numbers))
        limit = FACTOR * self.tests.seconds(test) + AT_LEAST
        status, spent = test.run(limit, nice, SPARSECOLL_MUTANT=mutants)
        how = ""
        if status is None:
            # A busy machine is slow without a mutant as well.
            _, seconds = test.run(10 * limit, nice)
            longer = FACTOR * seconds + AT_LEAST
            hangs = longer <= limit or test.run(longer, nice, SPARSECOLL_MUTANT=mutants)[0] is None
            how = "timeout" if hangs else ""
        elif status not in (0, SKIPPED):
            # Once more: a busy machine may have failed it.
            again, seconds = test.run(limit, nice, SPARSECOLL_MUTANT=mutants)
            spent += seconds
            if again not in (0, SKIPPED):
                how = "signal" if status < 0 else "failure"
        return how, spent

    def alone(self, number):
        """One mutant and short tests."""
        def odds(test):
            name = test.name
            return (self.noticed[name] + 1) / (self.asked[name] + 20) / (self.tests.seconds(test) + 0.1)

        left = [test for test in self.tests.all if self.tests.good(test) and self.tests.seconds(test) <= SHORT and
                self.left(test, [number])]
        spent = 0
        while left and spent < ALONE and not self.over():
            test = max(left, key=odds)
            left.remove(test)
            how, seconds = self.ask(test, [number])
            spent += seconds
            if how:
                return self.tell(test=test.name, passed=[], killed=number, how=how)
            self.tell(test=test.name, passed=[number])

    def together(self, test):
        """One test and the mutants that have yet to meet it, no two of which are in one line."""
        left = self.left(test, self.drawn)
        while left and not self.over():
            lines = {}
            for number in left:
                lines.setdefault((self.told[number]["file"], self.told[number]["line"]), number)
            group = list(lines.values())
            if self.tests.open(test):
                if self.tests.record(test, LONGEST, group) in (0, SKIPPED):
                    self.tell(test=test.name, passed=group)
                else:
                    self.tests.record(test, LONGEST)
            if not self.tests.good(test):
                return
            self.halve(test, self.left(test, group))
            left = self.left(test, [number for number in left if number not in group])

    def halve(self, test, numbers):
        numbers = self.left(test, numbers)
        if not numbers or self.over():
            return
        how, _ = self.ask(test, numbers)
        if not how:
            self.tell(test=test.name, passed=numbers)
        elif len(numbers) == 1:
            self.tell(test=test.name, passed=[], killed=numbers[0], how=how)
        else:
            half = len(numbers) // 2
            self.halve(test, numbers[:half])
            self.halve(test, numbers[half:])

    def run(self):
        jobs = self.tree.options.jobs
        todo = [test for test in self.tests.all if test.name not in self.tests.known]
        self.say(f"{len(todo)} tests are run, for at most {SHORT} s, to see what they reach")
        for _ in at_once(jobs, lambda test: self.over() or self.tests.record(test, SHORT), todo):
            pass
        self.say(f"{len(self.drawn) - len(self.killed)} mutants meet short tests alone")
        for _ in at_once(jobs, self.alone, [number for number in self.drawn if number not in self.killed]):
            pass
        tests = [test for test in self.tests.all if self.tests.good(test) or self.tests.open(test)]
        tests.sort(key=lambda test: (self.tests.open(test), self.tests.known.get(test.name, {}).get("seconds", 0)))
        self.say(f"{len(self.drawn) - len(self.killed)} mutants meet the others together")
        for _ in at_once(jobs, self.together, tests):
            pass

    def results(self):
        unknown = sum(self.tests.open(test) for test in self.tests.all)
        return [{"number": number, **self.told[number], **self.result(number, unknown)} for number in self.drawn]

    def result(self, number, unknown):
        if number in self.killed:
            by, how = self.killed[number]
            return {"result": KILLED, "by": by, "how": how}
        reaching = [test for test in self.tests.all if self.tests.good(test) and self.tests.reaches(test, number)]
        left = sum(test.name not in self.passed[number] for test in reaching)
        if left or unknown:
            return {"result": OPEN, "how": f"{len(reaching) - left} tests pass, then the time was over"}
        return {"result": SURVIVED, "how": f"all {len(reaching)} tests pass" if reaching else "no test reaches it"}


def run(tree, drawn, told, seed, say):
    """What became of each drawn mutant. What an earlier call has done is not done again."""
    trials = Trials(tree, Tests(tree, say), drawn, told, seed, say)
    trials.run()
    results = trials.results()
    (tree.out / f"results-{seed}.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in results))
    return results

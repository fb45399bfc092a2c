"""Which tests reach which mutants, and whether they notice."""
import hashlib
import json
import tempfile
import threading
import time

from .equivalents import key
from .programs import SKIPPED, at_once

FACTOR, AT_LEAST = 8, 10  # of a test's usual seconds, and seconds: whoever takes longer hangs


def hangs(test, limit, number, nice):
    """Whether a timeout was the mutant's doing: a busy machine is slow without it as well."""
    _, seconds = test.run(10 * limit, nice)
    longer = FACTOR * seconds + AT_LEAST
    return longer <= limit or test.run(longer, nice, SPARSECOLL_MUTANT=str(number))[0] is None


def record(tree, say):
    """Runs every test once: how long it takes, and what it reaches. A test that fails or skips is not asked again."""
    path = tree.out / "reached.jsonl"
    known = {}
    if path.is_file():
        known = {entry["test"]: entry for entry in map(json.loads, path.read_text().splitlines())}
    tests = tree.tests()
    todo = [test for test in tests if test.name not in known]
    if todo:
        say(f"{len(todo)} tests are run to see what they reach")

    def run(test):
        with tempfile.NamedTemporaryFile(dir=tree.out, prefix="reached-") as file:
            file.truncate(tree.count + 1)
            status, seconds = test.run(900, tree.options.nice, SPARSECOLL_REACHED=file.name)
            reached = [n for n, byte in enumerate(file.read()) if byte]
        return {"test": test.name, "status": status, "seconds": round(seconds, 3), "reached": reached}

    with open(path, "a") as out:
        for entry in at_once(tree.options.jobs, run, todo):
            known[entry["test"]] = entry
            out.write(json.dumps(entry) + "\n")
            out.flush()
            if entry["status"] not in (0, SKIPPED):
                say(f"{entry['test']} fails without a mutant, status {entry['status']}: left out")
    good = [test for test in tests if known[test.name]["status"] == 0]
    for test in good:
        test.seconds = known[test.name]["seconds"]
        test.reached = frozenset(known[test.name]["reached"])
    return sorted(good, key=lambda test: test.seconds)


def try_mutant(number, tests, budget, nice):
    """What became of one mutant: (result, by which test, how)."""
    spent = 0
    reaching = [test for test in tests if number in test.reached]
    if not reaching:
        return {"result": "survived", "how": "no test reaches it"}
    for asked, test in enumerate(reaching):
        if asked > 0 and spent + test.seconds > budget:
            return {"result": "survived", "how": f"{asked} of {len(reaching)} tests, then the time was over"}
        limit = FACTOR * test.seconds + AT_LEAST
        status, seconds = test.run(limit, nice, SPARSECOLL_MUTANT=str(number))
        spent += seconds
        if status is None and hangs(test, limit, number, nice):
            return {"result": "killed", "by": test.name, "how": "timeout"}
        if status in (None, 0, SKIPPED):
            continue
        # Once more: a busy machine may have failed it.
        again, seconds = test.run(limit, nice, SPARSECOLL_MUTANT=str(number))
        spent += seconds
        if again not in (0, SKIPPED):
            how = "signal" if status < 0 else "failure"
            return {"result": "killed", "by": test.name, "how": how}
    return {"result": "survived", "how": f"all {len(reaching)} tests pass"}


def draw(numbers, told, seed, count):
    """By their texts: who is not drawn any more, as what is equivalent, leaves the others of a seed as they were."""
    def place(number):
        return hashlib.sha256(repr((seed, *key(told[number]))).encode()).digest()
    return sorted(sorted(numbers), key=place)[:count]


def run(tree, tests, drawn, told, seed, say):
    """One line of JSON for each drawn mutant; what an earlier call has done is not done again."""
    path = tree.out / f"results-{seed}.jsonl"
    lines = path.read_text().splitlines() if path.is_file() else []
    done = {entry["number"]: entry for entry in map(json.loads, lines)}
    todo = [number for number in drawn if number not in done]
    lock = threading.Lock()

    def one(number):
        begin = time.monotonic()
        result = try_mutant(number, tests, tree.options.budget, tree.options.nice)
        entry = {"number": number, **told[number], **result, "seconds": round(time.monotonic() - begin, 1)}
        with lock, open(path, "a") as out:
            out.write(json.dumps(entry) + "\n")
        return entry

    for entry in at_once(tree.options.jobs, one, todo):
        done[entry["number"]] = entry
        say(f"{len(done)}/{len(drawn)} {entry['result']} ({entry['how']}, {entry['seconds']} s) "
            f"{entry['file']}:{entry['line']} {entry['after']}")
    return [done[number] for number in drawn]

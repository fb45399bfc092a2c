"""The list of mutants that no test can notice. An entry names the file, the function and the text before and after, so
that it outlives other lines:

  FILE FUNCTION
    - BEFORE
    + AFTER
    why the two do the same
"""


def key(mutant):
    return mutant["file"], mutant["function"], mutant["before"], mutant["after"]


def read(path):
    """key -> reason"""
    entries = {}
    if not path.is_file():
        return entries
    place = before = after = None
    for line in path.read_text().splitlines():
        if line.startswith("#") or not line.strip():
            continue
        if not line.startswith(" "):
            place, before, after = tuple(line.split(" ", 1)), None, None
        elif line.startswith("  - "):
            before, after = line[4:], None
        elif line.startswith("  + "):
            after = line[4:]
        elif place and before and after:
            entry = (*place, before, after)
            entries[entry] = f"{entries.get(entry, '')} {line.strip()}".strip()
        else:
            raise SystemExit(f"{path}: no entry begins at: {line}")
    return entries


def check(known, mutants, say):
    here = {key(mutant) for mutant in mutants}
    gone = [entry for entry in known if entry not in here]
    for file, function, before, after in gone:
        say(f"{file}, {function}: no such mutant any more: {before} -> {after}")
    say(f"{len(known)} equivalent mutants are listed")
    return 1 if gone else 0

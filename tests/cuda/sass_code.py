"""Kernels as nvdisasm prints them, and how many instructions a thread executes for one round of a loop.

A round is the cheapest way from a loop's head back to it on which everything is done that the round has to do, such as
two loads of 128 bits and a barrier. Nothing is on it that is not needed: no hit, no edge of a vector, no unaligned
address. Branches that hang together are judged one by one, and loops inside are gone through once or passed by, so a
round is what it takes at least. Branches of a warp that has diverged are not taken, nor are calls.
"""
import collections
import re

Instruction = collections.namedtuple("Instruction", "opcode guarded operands target")

SECTION = re.compile(r"^\s*\.section\s+\.text\.([^,]+),")
LABEL = re.compile(r"^(\.L_x_\d+):")
LINE = re.compile(r"^\s*/\*[0-9a-f]{4,6}\*/\s+(?:(@!?UP?\w+|@!?P\w+)\s+)?([A-Z][\w.]*)\s*([^;]*);")
ENDS = ("EXIT", "RET", "BRX", "JMX", "BRXU", "CALL", "KILL")  # or go where the text does not tell
LOCAL = ("LDL", "STL")
WIDTHS = {"U8", "S8", "U16", "S16", "64", "128"}
KINDS = {"load": ("LDG", "LD"), "store": ("STG", "ST")}  # of memory; LD and ST where the text does not say of which


class Kernel:
    def __init__(self, name):
        self.name = name
        self.code = []
        self.labels = {}

    def local_accesses(self):
        return sum(instruction.opcode.split(".")[0] in LOCAL for instruction in self.code)


def parse(text):
    """Kernels by their mangled names."""
    kernels = {}
    kernel = None
    for line in text.splitlines():
        if section := SECTION.match(line):
            kernel = kernels.setdefault(section.group(1), Kernel(section.group(1)))
        elif kernel is None:
            continue
        elif label := LABEL.match(line):
            kernel.labels[label.group(1)] = len(kernel.code)
        elif found := LINE.match(line):
            target = re.search(r"`\((\.L_x_\d+)\)", found.group(3))
            kernel.code.append(Instruction(found.group(2), found.group(1) is not None, found.group(3),
                                           target and target.group(1)))
    return kernels


def matches(opcode, wanted):
    """LDG.E.128.CONSTANT is an LDG, an LDG.128, and a load.128; without a width it is one of 32 bits."""
    have = opcode.split(".")
    want = wanted.split(".")
    if not WIDTHS & set(have):
        have.append("32")
    return have[0] in KINDS.get(want[0], want[:1]) and set(want[1:]) <= set(have[1:])


class Blocks:
    """A kernel's basic blocks; block b is code[begin[b]:begin[b + 1]]."""

    def __init__(self, kernel):
        self.kernel = kernel
        code = kernel.code
        starts = {0, len(code)} | set(kernel.labels.values())
        for at, instruction in enumerate(code):
            if instruction.opcode.split(".")[0] in ("BRA", *ENDS):
                starts.add(at + 1)
        self.begin = sorted(start for start in starts if start <= len(code))
        number = {start: block for block, start in enumerate(self.begin)}
        self.next = []
        for block in range(len(self)):
            last = code[self.begin[block + 1] - 1]
            kind = last.opcode.split(".")[0]
            behind = block + 1 if block + 1 < len(self) else None
            to = set()
            if kind == "BRA":
                conditional = last.guarded or re.match(r"!?U?P\d", last.operands) is not None
                if ".DIV" in last.opcode:
                    to = {behind}
                else:
                    to = {number[kernel.labels[last.target]]} if last.target else set()
                    if conditional:
                        to.add(behind)
            elif kind not in ENDS or (last.guarded and kind == "EXIT"):
                to = {behind}
            self.next.append(sorted(block for block in to if block is not None))
        self._order()

    def __len__(self):
        return len(self.begin) - 1

    def code_of(self, block):
        return self.kernel.code[self.begin[block]:self.begin[block + 1]]

    def _order(self):
        """self.order: every block that is reached before all that follow it; self.back: what closes loops."""
        self.back = set()
        finished = []
        state = {0: "open"}
        stack = [(0, iter(self.next[0]))] if len(self) else []
        while stack:
            block, rest = stack[-1]
            for to in rest:
                if state.get(to) == "open":
                    self.back.add((block, to))
                elif to not in state:
                    state[to] = "open"
                    stack.append((to, iter(self.next[to])))
                    break
            else:
                state[block] = "done"
                finished.append(block)
                stack.pop()
        self.order = finished[::-1]

    def loops(self):
        """Heads, each with the blocks of its loop."""
        before = collections.defaultdict(set)
        for block in self.order:
            for to in self.next[block]:
                before[to].add(block)
        loops = {}
        for tail, head in self.back:
            body = loops.setdefault(head, {head})
            waiting = [tail]
            while waiting:
                block = waiting.pop()
                if block not in body:
                    body.add(block)
                    waiting.extend(before[block])
        return loops

    def cheapest(self, start, body, must):
        """The cheapest way from start back to it."""
        gain = {block: tuple(sum(matches(i.opcode, kind) for i in self.code_of(block)) for kind, _ in must)
                for block in body}
        most = tuple(times for _, times in must)
        best = {start: {tuple(0 for _ in must): (0, None)}}  # by what is done: the cost, and where it comes from
        found = None
        for block in self.order:
            if block not in body or block not in best:
                continue
            for done, (before, _) in best[block].items():
                now = tuple(min(have + more, end) for have, more, end in zip(done, gain[block], most))
                cost = before + len(self.code_of(block))
                if now == most and start in self.next[block] and (found is None or cost < found[0]):
                    found = cost, (block, done)
                for to in self.next[block]:
                    if to not in body or (block, to) in self.back:
                        continue
                    ways = best.setdefault(to, {})
                    if now not in ways or cost < ways[now][0]:
                        ways[now] = cost, (block, done)
        return found and self._way(best, found[1])

    def _way(self, best, at):
        way = []
        while at is not None:
            block, done = at
            way.append(block)
            at = best[block][done][1]
        return [instruction for block in reversed(way) for instruction in self.code_of(block)]


def round_of(kernel, must):
    """The cheapest round of an innermost loop that does what it must, {opcode: times}; None where there is none."""
    blocks = Blocks(kernel)
    must = list(must.items())
    rounds = []
    for head, body in blocks.loops().items():
        there = [sum(matches(i.opcode, kind) for block in body for i in blocks.code_of(block)) for kind, _ in must]
        way = None
        if all(have >= times for have, (_, times) in zip(there, must)):
            way = blocks.cheapest(head, body, must)
        if way is not None:
            rounds.append((body, way))
    innermost = [way for body, way in rounds if not any(other < body for other, _ in rounds)]
    return min(innermost, key=len, default=None)

"""The places of a C++ file that can be altered, and the file with all alterations in it, one of which is chosen when a
program starts."""
import re

from . import tokens as cpp
from .tokens import ASSIGNS, BINDS

COMPARED = {"<": ("<=", ">="), "<=": ("<", ">"), ">": (">=", "<="), ">=": (">", "<"), "==": ("!=",), "!=": ("==",)}
COMPUTED = {"+": "-", "-": "+", "*": "/", "/": "*", "%": "/", "<<": ">>", ">>": "<<", "&": "|", "|": "&", "^": "&",
            "&&": "||", "||": "&&", "+=": "-=", "-=": "+=", "*=": "/=", "/=": "*=", "|=": "&=", "&=": "|=",
            "<<=": ">>=", ">>=": "<<="}
STEPPED = {"++": "--", "--": "++"}
HEADS = {"if", "for", "while", "switch", "catch", "constexpr"}
STARTS = {"return", "throw", "else", "do", "case", "co_return", "co_yield", "goto", "delete"}
NO_STATEMENT = STARTS | HEADS | {
    "default", "break", "continue", "using", "const", "auto", "static", "typedef", "template", "public", "private",
    "protected", "friend", "struct", "class", "enum", "union", "namespace", "try", "explicit", "virtual", "inline",
    "static_assert", "thread_local", "extern", "mutable", "unsigned", "signed", "asm"}
NO_FUNCTION = HEADS | {"noexcept", "decltype", "alignas", "requires", "sizeof", "__attribute__", "explicit"}
NUMBER = re.compile(r"(?P<digits>0[xX][\da-fA-F']+|0[bB][01']+|[\d']+)(?P<rest>[uUlLzZ]*|(?:ns|us|ms|s|min|h))$")


class Site:
    """One place: its span in the text, and what may stand there instead."""

    def __init__(self, start, end, at):
        self.start, self.end = start, end
        self.at = at  # where the altered sign stands
        self.choices = []  # (replacement of the whole span, what was before, what is after)
        self.first = None  # number of the first choice
        self.order = False
        self.inner = []
        self.function = ""


def squeezed(text):
    return " ".join(text.split())


class File:
    def __init__(self, text):
        self.text = text
        self.tokens = cpp.tokens_of(text)
        self.left_alone = self.constants()
        self.functions = self.function_names()
        self.sites = []
        for at, token in enumerate(self.tokens):
            if at in self.left_alone or not self.functions[at]:
                continue
            if token.kind == "number":
                self.number(at)
            elif token.binary and (token.text in COMPARED or token.text in COMPUTED):
                self.operator(at)
            elif token.text in STEPPED:
                self.step(at)
        self.neighbours()
        self.nest()

    # What the compiler must know, or what is no expression.
    def constants(self):
        alone = set()
        t = self.tokens
        for at, token in enumerate(t):
            end = None
            if token.text in ("static_assert", "alignas", "noexcept", "decltype", "sizeof", "asm", "__attribute__"):
                end = t[at + 1].match if at + 1 < len(t) and t[at + 1].text == "(" else None
            elif token.text == "<" and not token.binary:
                end = token.match
            elif token.text == "[" and at + 1 < len(t) and (t[at + 1].text == "[" or self.declares(at - 1)):
                end = token.match
            elif token.text == "case":
                end = next((i for i in range(at, len(t)) if t[i].text == ":"), None)
            elif token.text == "enum":
                body = next((i for i in range(at, len(t)) if t[i].text in ("{", ";")), None)
                end = t[body].match if body is not None else None
            elif token.text == "constexpr" and (at == 0 or t[at - 1].text != "if"):
                mark = next((i for i in range(at, len(t)) if t[i].text in ("=", "{", "(", ";")), None)
                if mark is not None and t[mark].text in ("=", "{"):
                    end = self.statement_end(mark)
            elif token.text == "constexpr":
                end = t[at + 1].match
            if end is not None:
                alone.update(range(at, end + 1))
        return alone

    def declares(self, at):
        """Whether this is the name of an array that is declared here."""
        t = self.tokens
        return at > 0 and t[at].kind == "name" and (
            t[at - 1].text in (">", "*") and not t[at - 1].binary or
            t[at - 1].kind == "name" and t[at - 1].text not in STARTS)

    def statement_end(self, at):
        while at < len(self.tokens) and self.tokens[at].text != ";":
            at = (self.tokens[at].match or at) + 1 if self.tokens[at].text in "([{" else at + 1
        return at

    # For each token the function whose body or initialisers it stands in.
    def function_names(self):
        t = self.tokens
        names = []
        scopes = []  # (index of the closing brace, name or "")
        begin = 0  # of the declaration at hand
        for at, token in enumerate(t):
            while scopes and at > scopes[-1][0]:
                begin = max(begin, scopes.pop()[0] + 1)
            inside = scopes[-1][1] if scopes else ""
            names.append(inside)
            if token.text == "{" and not inside and token.match is not None:
                scopes.append((token.match, self.name_of(begin, at)))
            if token.text in (";", "{", "}") and not inside:
                begin = at + 1
            elif token.text == ":" and at > 0 and t[at - 1].text in ("public", "private", "protected"):
                begin = at + 1
            elif token.text == ":" and not inside and at > 0 and t[at - 1].text in (")", "noexcept"):
                scopes.append((self.initialisers_end(at), self.name_of(begin, at)))
        return names

    def initialisers_end(self, at):
        """Where the list of members behind a constructor's colon ends, which its body follows."""
        t = self.tokens
        at += 1
        while at < len(t):
            while at < len(t) and t[at].text not in ("(", "{"):
                at += 1
            if at >= len(t) or t[at].match is None:
                return at
            at = t[at].match + 1
            if at < len(t) and t[at].text != ",":
                break
        return t[at].match if at < len(t) and t[at].match is not None else at

    def name_of(self, begin, end):
        t = self.tokens
        at = begin
        if any(t[i].text in ("class", "struct", "union", "enum", "namespace") and
               (i == begin or t[i - 1].text not in ("<", ",")) for i in range(begin, end)):
            return ""
        while at < end:
            if t[at].text == "<" and not t[at].binary and t[at].match is not None:
                at = t[at].match
            elif t[at].text == "operator":
                return "operator" + t[at + 1].text
            elif t[at].text == "(" and at > begin and t[at - 1].kind == "name" and t[at - 1].text not in NO_FUNCTION:
                name = t[at - 1].text
                if "_" in name and name.isupper():  # a macro that defines one
                    return squeezed(self.text[t[at - 1].start:t[t[at].match].end]) if t[at].match else name
                return name
            at += 1
        return ""

    # The first and the last token of a binary operator's operands.
    def operands(self, at):
        t = self.tokens
        binds = BINDS[t[at].text]
        left = at
        while left > 0:
            token = t[left - 1]
            if token.text in (")", "]", "}", ">") and not token.binary and token.match is not None:
                if token.text == "}" and left != at and not t[left].binary and self.text[token.end].isspace():
                    break
                if token.text == ")" and t[token.match - 1].text in HEADS:
                    break
                left = token.match
                continue
            if token.text in ("(", "[", "{", ",", ";", "?", ":", "<") and not token.binary:
                break
            if token.kind == "name" and token.text in STARTS:
                break
            if token.binary and (BINDS[token.text] > binds or BINDS[token.text] == ASSIGNS):
                break
            left -= 1
        right = at
        chosen = 0  # conditional expressions, which bind as an assignment does
        while right + 1 < len(t):
            token = t[right + 1]
            if binds == ASSIGNS and (token.text == "?" or (token.text == ":" and chosen > 0)):
                chosen += 1 if token.text == "?" else -1
                right += 1
                continue
            if token.text in ("(", "[", "{", "<") and not token.binary and token.match is not None:
                right = token.match
                continue
            if token.text in (")", "]", "}", ",", ";", "?", ":") or (token.text == ">" and not token.binary):
                break
            if token.binary and (BINDS[token.text] > binds or (BINDS[token.text] == binds and binds != ASSIGNS)):
                break
            right += 1
        return (left, right) if left < at < right else None

    def line_with(self, start, end, replacement):
        """The line, or the lines, of a place before and after its alteration."""
        low = self.text.rfind("\n", 0, start) + 1
        high = self.text.find("\n", end)
        high = len(self.text) if high < 0 else high
        return (squeezed(self.text[low:high]), squeezed(self.text[low:start] + replacement + self.text[end:high]))

    def plain(self, first, last, change=None, replacement=""):
        """Tokens as they stand, on one line, with one of them changed."""
        words = []
        for at in range(first, last + 1):
            token = self.tokens[at]
            if at > first and self.text[token.start - 1].isspace():
                words.append(" ")
            words.append(replacement if at == change else token.text)
        return "".join(words)

    def add(self, first, last, at, replacements):
        site = Site(self.tokens[first].start, self.tokens[last].end, self.tokens[at].start)
        site.function = self.functions[at]
        for replacement in replacements:
            site.choices.append((self.plain(first, last, at, replacement),
                                 *self.line_with(self.tokens[at].start, self.tokens[at].end, replacement)))
        self.sites.append(site)

    def operator(self, at):
        extent = self.operands(at)
        sign = self.tokens[at].text
        if extent and not self.left_alone.intersection(extent):
            self.add(*extent, at, COMPARED.get(sign) or (COMPUTED[sign],))

    def step(self, at):
        t = self.tokens
        if at + 1 >= len(t) or t[at + 1].kind != "name" or (at > 0 and t[at - 1].kind == "name" and
                                                           t[at - 1].text not in STARTS):
            return  # behind its operand
        last = at + 1
        while last + 1 < len(t) and (t[last + 1].text in (".", "->", "[", "::") or t[last].text in (".", "->", "::")):
            last = t[last + 1].match if t[last + 1].text == "[" else last + 1
        self.add(at, last, at, (STEPPED[t[at].text],))

    def number(self, at):
        text = self.tokens[at].text
        whole = NUMBER.match(text)
        if whole and (len(text) == 1 or not text.startswith("0") or text[1] in "xXbBuUlLzZ"):
            digits = whole["digits"].replace("'", "")
            more = int(digits, 0) + 1 if not digits.isdigit() else int(digits) + 1
            new = (hex(more) if digits[:2] in ("0x", "0X") else str(more)) + whole["rest"]
        elif re.search(r"[.eEpP]", text):
            zero = not re.search(r"[1-9a-fA-F]", re.split(r"[eEpP]", text.removeprefix("0x"))[0])
            new = "1.0" if zero else f"(2 * {text})"
        else:
            return
        self.add(at, at, at, (new,))

    # Two neighbouring statements, one of which writes what the other names, the other way round.
    def neighbours(self):
        t = self.tokens
        in_braces = self.in_braces()
        at = 0
        while at < len(t):
            first = self.statement(at) if at > 0 and in_braces[at] and t[at - 1].text in ("{", ";", "}") else None
            second = self.statement(first + 1) if first else None
            if second and self.one_needs_the_other((at, first), (first + 1, second)):
                a = self.plain(at, first)
                b = self.plain(first + 1, second)
                site = Site(t[at].start, t[second].end, t[at].start)
                site.function = self.functions[at]
                site.order = True
                site.choices.append((f"{b} {a}", squeezed(f"{a} {b}"), squeezed(f"{b} {a}")))
                self.sites.append(site)
                at = second
            at += 1

    def in_braces(self):
        """For each token whether the innermost bracket around it is a brace."""
        around, inside = [], []
        for at, token in enumerate(self.tokens):
            while around and self.tokens[around[-1]].match <= at:
                around.pop()
            inside.append(bool(around) and self.tokens[around[-1]].text == "{")
            if token.match is not None and token.match > at:
                around.append(at)
        return inside

    def statement(self, at):
        """The last token of the plain statement that begins here, or None."""
        t = self.tokens
        if at >= len(t) or not self.functions[at] or at in self.left_alone or t[at].text in NO_STATEMENT:
            return None
        if t[at].kind != "name" and t[at].text not in ("++", "--", "*", "("):
            return None
        end = self.statement_end(at)
        if end >= len(t) or any(t[i].text in ("{", "}") for i in range(at, end)):
            return None
        after = at  # past the first name, however qualified: another name there makes it a declaration
        while t[after].kind == "name" and t[after + 1].text in ("::", "<") and not t[after + 1].binary:
            if t[after + 1].text == "<":
                after = (t[after + 1].match or after + 1) + 1
                if t[after].kind == "name":
                    return None
            else:
                after += 2
            if t[after].text == "::":
                after += 1
        if t[at].kind == "name":
            follower = t[after + 1] if t[after].kind == "name" else t[after]
            if follower.kind == "name" or (follower.text in ("*", "&", "&&") and not follower.binary):
                return None
        return end

    def one_needs_the_other(self, a, b):
        return bool(self.written(*a) & self.named(*b) or self.written(*b) & self.named(*a))

    def named(self, first, last):
        return {t.text for t in self.tokens[first:last] if t.kind == "name"}

    def written(self, first, last):
        t = self.tokens
        at = next((i for i in range(first, last) if t[i].binary and BINDS[t[i].text] == ASSIGNS), None)
        if at is None:
            if t[first].text not in STEPPED and t[last - 1].text not in STEPPED:
                return set()
            at = last - (t[last - 1].text in STEPPED)
        while at > first and t[at - 1].text in ("]", ")"):
            at = t[at - 1].match
        return self.named(at - 1, at) if at > first else set()

    def nest(self):
        """Sites inside others; of two that overlap otherwise the later is left out."""
        self.sites.sort(key=lambda site: (site.start, -site.end, not site.order))
        self.top = []
        kept = []
        open_sites = []
        for site in self.sites:
            while open_sites and open_sites[-1].end <= site.start:
                open_sites.pop()
            if open_sites and site.end > open_sites[-1].end:
                continue
            (open_sites[-1].inner if open_sites else self.top).append(site)
            open_sites.append(site)
            kept.append(site)
        self.sites = kept

    def drop(self, dropped):
        """Leaves out the sites whose first choice has one of these numbers."""
        for site in self.sites:
            if site.first in dropped:
                site.choices = []

    def rendered(self, include):
        """The file with every choice in it; and for each line the sites that begin there: (column, end line, end
        column, number)."""
        head = f'#include "{include}"\n'
        out = [head]
        spans = []
        length = len(head)

        def put(text):
            nonlocal length
            out.append(text)
            length += len(text)

        def write(start, end, inner):
            at = start
            for site in inner:
                put(self.text[at:site.start])
                begin = length
                if site.choices and site.order:
                    put(f"if (sparsecoll_mutant<{site.first}>()) {{ {site.choices[0][0]} }} else {{ ")
                elif site.choices:
                    put("(")
                    for number, choice in enumerate(site.choices):
                        put(f"sparsecoll_mutant<{site.first + number}>() ? ({choice[0]}) : ")
                    put("(")
                write(site.start, site.end, site.inner)
                if site.choices:
                    put(" }" if site.order else "))")
                    spans.append((begin, length, site.first))
                at = site.end
            put(self.text[at:end])

        write(0, len(self.text), self.top)
        return "".join(out), spans

    def line(self, offset):
        return self.text.count("\n", 0, offset) + 1

"""C++ text as tokens, with their brackets matched: as much of the language as formatted code needs."""
import re

TOKEN = re.compile(r"""
    (?P<space>\s+|//[^\n]*|/\*.*?\*/)
  | (?P<text>(?:u8|[uUL])?R"(?P<raw>[^(]*)\(.*?\)(?P=raw)"
      |(?:u8|[uUL])?"(?:\\.|[^"\\])*"|(?:u8|[uUL])?'(?:\\.|[^'\\])*')
  | (?P<number>\.?\d(?:[eEpP][+-]|'?[\w.])*)
  | (?P<name>[A-Za-z_]\w*)
  | (?P<sign><=>|<<=|>>=|\.\.\.|->\*|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|::|\[\[|\]\]|.)
""", re.X | re.S)

# How tightly a binary operator binds; the smaller, the tighter.
BINDS = {}
for number, signs in enumerate(("* / %", "+ -", "<< >>", "<=>", "< <= > >=", "== !=", "&", "^", "|", "&&", "||",
                                "= += -= *= /= %= &= |= ^= <<= >>=")):
    for sign in signs.split():
        BINDS[sign] = number
ASSIGNS = BINDS["="]


class Token:
    __slots__ = ("kind", "text", "start", "end", "match", "binary")

    def __init__(self, kind, text, start, end):
        self.kind, self.text, self.start, self.end = kind, text, start, end
        self.match = None
        self.binary = False

    def __repr__(self):
        return f"{self.text}@{self.start}"


def without_directives(text):
    """The same text, where lines of the preprocessor are blank."""
    def blank(found):
        return re.sub(r"[^\n]", " ", found[0])
    return re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", blank, text, flags=re.M)


def tokens_of(text):
    """The tokens of a file in clang-format's style: a sign between spaces is a binary operator, another `<` opens the
    arguments of a template."""
    tokens = []
    for found in TOKEN.finditer(without_directives(text)):
        kind = found.lastgroup if found.lastgroup != "raw" else "text"
        if kind == "space":
            continue
        word, start = found[0], found.start()
        spaced = text[start - 1:start].isspace() and text[found.end():found.end() + 1].isspace()
        if word == ">>" and not spaced:
            tokens += [Token(kind, ">", start, start + 1), Token(kind, ">", start + 1, start + 2)]
            continue
        if word in ("[[", "]]"):
            tokens += [Token(kind, word[0], start, start + 1), Token(kind, word[0], start + 1, start + 2)]
            continue
        token = Token(kind, word, start, found.end())
        after_template = tokens and tokens[-1].text in ("template", "operator")
        token.binary = kind == "sign" and word in BINDS and spaced and not after_template
        tokens.append(token)
    match(tokens)
    return tokens


def match(tokens):
    closers = {"(": ")", "[": "]", "{": "}", "<": ">"}
    opened = []
    for at, token in enumerate(tokens):
        if token.kind != "sign" or token.binary:
            continue
        if token.text in closers:
            if token.text == "<" and at > 0 and tokens[at - 1].text == "operator":
                continue
            opened.append(at)
        elif token.text in (")", "]", "}", ">"):
            # What looked like a template's `<` and was not ends with the bracket around it.
            while opened and token.text != ">" and tokens[opened[-1]].text == "<":
                opened.pop()
            if opened and closers[tokens[opened[-1]].text] == token.text:
                token.match = opened.pop()
                tokens[token.match].match = at

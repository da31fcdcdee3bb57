"""ptx_parser.py -- PTX text to functions, variables and instructions.

The grammar that nvcc emits is small: directives, labels, and `@pred opcode operands;`. Braces
open scopes inside a function (inline assembly uses them), and both registers and labels belong
to their scope; after parsing, every register is an object of its own and every label has a name
that is unique in its function, so that nothing later needs to know about scopes.

SPDX-License-Identifier: MIT
"""
import re
from dataclasses import dataclass, field

from ptx_types import TYPES, Type

TOKEN = re.compile(r'"[^"]*"|\.\w+|[\w$%](?:[\w$%.]|::)*|[^\s\w]')
COMMENT = re.compile(r'("[^"\n]*")|//[^\n]*|/\*.*?\*/', re.S)
# Source files that a report should not name: the toolkit's headers and the wrappers of single
# instructions. The line that called them is meant instead.
WRAPPERS = re.compile(r"/include/(sm_|cuda_|device_|crt/|cooperative_|math_)"
                      r"|/targets/[^/]+/include/|/include/c\+\+/|(^|/|_)ptx\.cuh$|^$")


class PtxError(Exception):
    """What is wrong, with the place in the .cu file."""


# ---- operands ----
@dataclass(eq=False)
class Reg:
    name: str  # in C++
    type: Type


@dataclass
class Imm:
    text: str


@dataclass
class Sym:
    name: str


@dataclass
class Vec:
    items: list


@dataclass
class Mem:
    base: object  # Reg, Sym or Imm
    offset: int
    coords: list = None  # of a tensor map: [map, {x, y}]


@dataclass
class Not:
    reg: Reg


@dataclass
class Pair:
    first: object  # d|p
    second: object


@dataclass
class List:
    items: list  # (a, b) of a call


SINK = Sym("_")


# ---- statements ----
@dataclass
class Place:
    file: str
    line: int

    def __str__(self):
        return f"{self.file}:{self.line}"


@dataclass
class Instr:
    op: str
    args: list
    pred: object  # Reg, Not or None
    place: Place
    offset: int  # in the PTX text

    @property
    def parts(self):
        return self.op.split(".")


@dataclass
class Label:
    name: str


@dataclass
class Param:
    name: str
    align: int
    bytes: int
    offset: int = 0


@dataclass
class Buffer:
    """A .local, .shared or .param variable of a function."""
    name: str
    align: int
    bytes: int
    cname: str = ""


@dataclass
class Function:
    name: str
    is_entry: bool
    params: list
    result: Param
    body: list = field(default_factory=list)
    regs: list = field(default_factory=list)
    locals: list = field(default_factory=list)
    call_params: list = field(default_factory=list)
    shared: list = field(default_factory=list)
    branch_targets: dict = field(default_factory=dict)
    directives: dict = field(default_factory=dict)  # maxntid: (128, 1, 1)


@dataclass
class Variable:
    name: str
    space: str  # global or const
    align: int
    type: Type
    count: int
    init: list  # of ints and strings (symbols)

    @property
    def bytes(self):
        return self.type.bytes * self.count


@dataclass
class Module:
    variables: list = field(default_factory=list)
    functions: list = field(default_factory=list)
    shared: list = field(default_factory=list)       # module-scope .shared
    dynamic: list = field(default_factory=list)      # .extern .shared
    target: str = ""


class Scope:
    def __init__(self, parent, number):
        self.parent = parent
        self.number = number
        self.names = {}
        self.labels = {}

    def find(self, what, name):
        scope = self
        while scope is not None:
            found = getattr(scope, what).get(name)
            if found is not None:
                return found
            scope = scope.parent
        return None


def c_name(name):
    return re.sub(r"\W", "_", name)


def strip_comments(text):
    def keep(m):
        return m.group(1) or "\n" * m.group(0).count("\n")
    return COMMENT.sub(keep, text)


class Parser:
    def __init__(self, text):
        text = strip_comments(text)
        self.files = {int(n): f for n, f in re.findall(r'^\s*\.file\s+(\d+)\s+"([^"]*)"', text, re.M)}
        found = list(TOKEN.finditer(text))
        self.tokens = [m.group(0) for m in found]
        self.offsets = [m.start() for m in found]
        self.text = text
        self.at = 0
        self.tokens.append("")
        self.offsets.append(len(text))
        self.module = Module()
        self.inlined = {}  # (file, line, column) -> where that was inlined
        self.place = Place("", 0)

    # ---- tokens ----
    def peek(self, ahead=0):
        return self.tokens[min(self.at + ahead, len(self.tokens) - 1)]

    def take(self):
        token = self.tokens[self.at]
        self.at += 1
        return token

    def accept(self, token):
        if self.tokens[self.at] == token:
            self.at += 1
            return True
        return False

    def expect(self, token):
        got = self.take()
        if got != token:
            self.at -= 1
            self.fail(f"expected '{token}', found '{got}'")

    def ptx_line(self):
        return self.text.count("\n", 0, self.offsets[self.at]) + 1

    def fail(self, what):
        raise PtxError(f"{self.place}: line {self.ptx_line()} of the PTX: {what}")

    def number(self):
        sign = -1 if self.accept("-") else 1
        token = self.take()
        try:
            return sign * int(token.rstrip("U"), 0)
        except ValueError:
            self.at -= 1
            self.fail(f"expected a number, found '{token}'")

    def skip_to(self, end):
        while self.take() != end:
            pass

    # ---- module ----
    def parse(self):
        linkage = set()
        while self.peek():
            token = self.take()
            if token in (".version", ".address_size"):
                self.take()
            elif token == ".target":
                self.module.target = self.take()
                while self.accept(","):
                    self.take()
            elif token == ".file":
                self.take(), self.take()
                while self.accept(","):
                    self.take()
            elif token in (".visible", ".weak", ".extern", ".common"):
                linkage.add(token)
                continue
            elif token in (".global", ".const", ".shared"):
                self.variable(token[1:], ".extern" in linkage)
            elif token == ".entry":
                self.function(True)
            elif token == ".func":
                self.function(False)
            elif token == ".section":
                self.skip_to("{"), self.skip_to("}")
            elif token in (".pragma", ".alias"):
                self.skip_to(";")
            elif token == ".loc":
                self.loc()
            else:
                self.at -= 1
                self.fail(f"unknown directive '{token}'")
            linkage = set()
        return self.module

    def align_and_type(self):
        align = 0
        while True:
            token = self.take()
            if token == ".align":
                align = self.number()
            elif token == ".attribute":
                self.skip_to(")")
            elif token == ".ptr":
                while self.peek() in (".global", ".shared", ".const", ".local", ".param"):
                    self.take()
            elif token[1:] in TYPES:
                self.type = TYPES[token[1:]]
                if self.accept(".ptr"):
                    while self.peek() in (".global", ".shared", ".const", ".local"):
                        self.take()
                    if self.accept(".align"):
                        self.number()
                return align or self.type.bytes, self.type
            else:
                self.at -= 1
                self.fail(f"unknown type '{token}'")

    def array(self):
        """The [..] after a name: number of elements, 1 without, 0 for []."""
        count = 1
        while self.accept("["):
            count *= 0 if self.peek() == "]" else self.number()
            self.expect("]")
        return count

    def variable(self, space, extern):
        align, kind = self.align_and_type()
        name = self.take()
        count = self.array()
        init = []
        if self.accept("="):
            init = self.initialiser(kind)
        self.expect(";")
        if space == "shared":
            which = self.module.dynamic if count == 0 else self.module.shared
            which.append(Buffer(name, align, kind.bytes * count))
            return
        if extern:
            self.fail(f"the variable '{name}' lives in another translation unit")
        self.module.variables.append(Variable(name, space, align, kind, count, init))

    def initialiser(self, kind):
        if self.accept("{"):
            out = []
            while not self.accept("}"):
                out += self.initialiser(kind)
                self.accept(",")
            return out
        token = self.peek()
        if token == "generic":
            self.take(), self.expect("(")
            out = [self.symbol_sum()]
            self.expect(")")
            return out
        if re.match(r"0[fFdD][0-9a-fA-F]+$", token):
            return [int(self.take()[2:], 16)]
        if token == "-" or token[0].isdigit():
            return [self.number() & ((1 << kind.bits) - 1)]
        return [self.symbol_sum()]

    def symbol_sum(self):
        name, offset = self.take(), 0
        if self.accept("+"):
            offset = self.number()
        return (name, offset)

    def params(self):
        out, offset = [], 0
        self.expect("(")
        while not self.accept(")"):
            self.accept(",")
            if not self.accept(".param"):
                self.fail("a function with register parameters")
            align, kind = self.align_and_type()
            name = self.take()
            size = kind.bytes * self.array()
            offset = (offset + align - 1) // align * align
            out.append(Param(name, align, size, offset))
            offset += size
        return out

    def function(self, is_entry):
        result = None
        if self.peek() == "(":
            result = self.params()[0]
        name = self.take()
        params = self.params() if self.peek() == "(" else []
        f = Function(name, is_entry, params, result)
        while self.peek() not in ("{", ";"):
            word = self.take()
            if word == ".noreturn" or word == ".unified":
                continue
            values = []
            while re.match(r"\d+$", self.peek()):
                values.append(self.number())
                self.accept(",")
            f.directives[word[1:]] = tuple(values)
        if self.accept(";"):
            return
        self.expect("{")
        BodyParser(self, f).parse()
        self.module.functions.append(f)

    # ---- places ----
    def loc(self):
        where = (self.number(), self.number(), self.number())
        parent = None
        if self.accept(","):
            self.take(), self.take()  # function_name LABEL
            if self.accept("+"):
                self.number()
            self.expect(",")
            self.take()  # inlined_at
            parent = (self.number(), self.number(), self.number())
        self.inlined[where] = parent
        if where[1] == 0:
            return
        best = where
        seen = set()
        while WRAPPERS.search(self.files.get(best[0], "")) and best not in seen:
            seen.add(best)
            outer = self.inlined.get(best)
            if outer is None:
                break
            best = outer
        self.place = Place(self.files.get(best[0], "?"), best[1])


class BodyParser:
    def __init__(self, parser, function):
        self.p = parser
        self.f = function
        self.scopes = 0
        self.scope = Scope(None, 0)
        self.pending = []  # operands that may be labels: (list, index, scope)

    def parse(self):
        p = self.p
        while True:
            token = p.peek()
            if token == "":
                p.fail("the text ends inside a function")
            if p.accept("{"):
                self.scopes += 1
                self.scope = Scope(self.scope, self.scopes)
            elif p.accept("}"):
                self.scope = self.scope.parent
                if self.scope is None:
                    break
            elif p.peek(1) == ":":
                self.label()
            elif token[0] == ".":
                self.directive(p.take())
            elif token == ";":
                p.take()
            else:
                self.instruction()
        self.resolve_labels()

    def label(self):
        p = self.p
        name = p.take()
        p.expect(":")
        if p.peek() == ".branchtargets":
            p.take()
            targets = []
            while not p.accept(";"):
                targets.append(Sym(p.take()))
                p.accept(",")
            self.scope.names[name] = Sym(name)
            self.f.branch_targets[name] = targets
            self.pending += [(targets, i, self.scope) for i in range(len(targets))]
            return
        if p.peek() == ".callprototype":
            p.fail("an indirect call")
        unique = c_name(name) + (f"_s{self.scope.number}" if self.scope.number else "")
        self.scope.labels[name] = unique
        self.f.body.append(Label(unique))

    def directive(self, token):
        p = self.p
        if token == ".loc":
            p.loc()
        elif token == ".reg":
            self.registers()
        elif token in (".local", ".shared", ".param"):
            self.buffer(token[1:])
        elif token == ".pragma":
            p.skip_to(";")
        else:
            p.fail(f"unknown directive '{token}'")

    def registers(self):
        p = self.p
        token = p.take()[1:]
        if token not in TYPES:
            p.fail(f"registers of type '{token}'")
        kind = TYPES[token]
        while True:
            name = p.take()
            names = [name]
            if p.accept("<"):
                names = [f"{name}{i}" for i in range(p.number())]
                p.expect(">")
            for n in names:
                # Names with a number at the end are free of the emitter's own names.
                cname = n[1:] if re.fullmatch(r"%[a-zA-Z]+\d+", n) else "v_" + n.strip("%")
                if self.scope.number:
                    cname += f"_s{self.scope.number}"
                reg = Reg(c_name(cname), kind)
                self.scope.names[n] = reg
                self.f.regs.append(reg)
            if p.accept(";"):
                return
            p.expect(",")

    def buffer(self, space):
        p = self.p
        align, kind = p.align_and_type()
        name = p.take()
        b = Buffer(name, align, kind.bytes * p.array())
        p.expect(";")
        where = {"local": self.f.locals, "shared": self.f.shared, "param": self.f.call_params}[space]
        b.cname = f"{space}{len(where)}_{c_name(name)}"
        where.append(b)
        self.scope.names[name] = b

    def instruction(self):
        p = self.p
        pred = None
        line = p.offsets[p.at]
        if p.accept("@"):
            negated = p.accept("!")
            pred = self.operand()
            if negated:
                pred = Not(pred)
        op = p.take()
        args = []
        while not p.accept(";"):
            args.append(self.operand())
            if p.peek() != ";":
                p.expect(",")
        self.pending += [(args, i, self.scope) for i, a in enumerate(args) if isinstance(a, Sym)]
        self.f.body.append(Instr(op, args, pred, p.place, line))

    def operand(self):
        p = self.p
        token = p.take()
        if token == "{":
            items = self.until("}")
            return Vec(items)
        if token == "(":
            return List(self.until(")"))
        if token == "[":
            return self.memory()
        if token == "!":
            return Not(self.operand())
        if token == "-":
            return Imm("-" + p.take())
        first = self.simple(token)
        if p.accept("|"):
            return Pair(first, self.simple(p.take()))
        return first

    def until(self, end):
        p = self.p
        items = []
        while not p.accept(end):
            items.append(self.operand())
            p.accept(",")
        return items

    def memory(self):
        p = self.p
        base = self.simple(p.take())
        offset, coords = 0, None
        if p.accept("+"):
            offset = p.number()
        elif p.accept("-"):
            offset = -p.number()
        if p.accept(","):
            p.expect("{")
            coords = self.until("}")
        p.expect("]")
        return Mem(base, offset, coords)

    def simple(self, token):
        if token == "_":
            return SINK
        found = self.scope.find("names", token)
        if found is not None:
            return found
        if token[0].isdigit():
            return Imm(token)
        return Sym(token)

    def resolve_labels(self):
        for args, i, scope in self.pending:
            name = scope.find("labels", args[i].name)
            if name is not None:
                args[i] = Label(name)


def parse(text):
    return Parser(text).parse()

"""The records of a thread, from what is stored of them: RECORDS, STREAM."""

from container import WORD, Fields, demand, signed, unfold, unzstd
from plans import FIRST

# ---------------------------------------------------------------------------------------------------------------------
# RECORDS

CUT, STATE, SIGNAL, SIGRETURN = 2, 3, 4, 5
SPECIAL_VALUES = {CUT: 5, STATE: 3, SIGNAL: 1, SIGRETURN: 0}
NOTES = {
    8: ("alloc", 4),
    9: ("free", 3),
    10: ("realloc", 5),
    11: ("mapped", 6),
    12: ("unmapped", 3),
    13: ("remapped", 5),
    14: ("break", 2),
    15: ("name", 4),
    16: ("enter", 2),
    17: ("leave", 2),
    18: ("forked", 2),
    19: ("wait", 3),
    20: ("woken", 3),
    21: ("wake", 3),
    22: ("started", 3),
    23: ("ended", 2),
    24: ("gap", 6),
}
SPECIAL_VALUES |= {head: values for head, (_, values) in NOTES.items()}
# Which of a note's words is a text, or a hook.
TEXT_OF, HOOK_OF, NO_TEXT = {11: 5, 15: 4, 16: 2, 17: 2}, {8: 2, 9: 2, 10: 2}, 0xFFFFFFFF


# ---------------------------------------------------------------------------------------------------------------------
# STREAM


def decode_stream(chunk, table, features):
    """The state, the stamps and the records (lists of words) of a chunk."""
    fields = Fields(chunk.payload)
    # STATE
    state = {"carried": [fields.number() for _ in range(3)], "loop": fields.number()}
    state["values"], state["held"] = fields.numbers(512), fields.numbers(512)
    # STAMPS
    accesses, time, stamps = 0, chunk.head["begin"], []
    for _ in range(fields.number()):
        accesses, time = accesses + fields.number(), time + fields.number()
        stamps.append((accesses, time))
    demand(accesses <= chunk.head["accesses"], "a stamp behind the last access")
    if stamps:
        features.add("stamp")
    return state, stamps, Descriptors(fields, chunk.head["raw"] // 8, table, features).records()


# STRINGS


def read_string(fields, most):
    length, n = fields.number(), fields.number()
    demand(length <= most, "a string of impossible length")
    data = fields.bytes(n >> 1)
    if n & 1:
        return unzstd(data, length)
    demand(length == n >> 1, "a string of another length")
    return data


# SERIES

DENSE, LEAST = 1, 2


class Series:
    """Many of them, from four strings."""

    def __init__(self, strings):
        self.heads, self.runs, self.sparse, self.dense = strings

    def next(self, size):
        """The codes at the places of the next series, 0 where it is as expected; and the flags of its head."""
        head = self.heads.number()
        codes, flags = head >> 2, head & 3
        if flags & DENSE:
            demand(codes == 0, "codes of a dense series are counted")
            return self.dense.bytes(size), flags
        demand(codes <= size, "more codes than places")
        series = b""
        for _ in range(codes):
            series += bytes(self.runs.number(size - len(series))) + self.sparse.bytes(1)
            demand(series[-1], "a code that is none")
        return series + bytes(size - len(series)), flags


# KINDS


class Kind:
    def __init__(self, key, body, sources):
        self.key, self.body, self.sources = key, body, sources
        self.arity = len(sources)


NO_SOURCE = 16


class Leaves:
    """Which records leaves stand for: sources of their parameters."""

    def __init__(self, table):
        self.table = table

    def sources(self, key):
        if key < 64:
            demand(key in SPECIAL_VALUES, "a leaf that is not")
            return [NO_SOURCE] * SPECIAL_VALUES[key]
        demand(key in self.table and self.table[key].words > 0, f"leaf {key} is not defined")
        block = self.table[key]
        way_out, steady = block.meaning(key)
        if not steady:
            words = way_out.words if way_out else block.words
            return list(block.sources[: words - 1])
        words = [slot - FIRST for slot in block.free]
        return [block.sources[w] if 0 <= w < len(block.sources) else NO_SOURCE for w in words]


# PATHS

EXPLICIT = 4


def read_path(k, codes, explicit):
    recent = [k + 1, k, k, k]
    for code in codes:
        demand(code <= EXPLICIT, "a code of unknown kind")
        if code == EXPLICIT:
            recent = [(k + unfold(explicit.number())) & WORD] + recent[:3]
        else:
            recent.insert(0, recent.pop(code))
        yield recent[0]


# COLUMNS

OTHER, MISS = 1, 2


class Column:
    def __init__(self, least):
        self.last = self.step = self.stride = 0
        self.back, self.least = False, least

    def predict(self, back):
        return (self.last - self.step if back else self.last + self.stride) & WORD

    def update(self, number):
        step = (number - self.last) & WORD
        if step == self.step:
            self.stride = step
        self.step, self.last = step, number

    def numbers(self, codes, planes, features):
        for code in codes:
            if code == 0:
                number = self.predict(self.back)
            elif code == OTHER:
                self.back = not self.back
                number = self.predict(self.back)
                features.add("back expected" if self.back else "on expected")
            else:
                demand(code <= MISS + 8, "a code of unknown kind")
                residual = int.from_bytes(bytes(planes[b].byte() for b in range(code - MISS)), "little")
                features.add("residual of the last" if self.least is None else "residual of the least")
                number = (self.last + unfold(residual) if self.least is None else self.least + residual) & WORD
            self.update(number)
            yield number


# RELATIONS

FREQUENT, RELATED_FROM = 64, 32


class Relation:
    def __init__(self, related=NO_SOURCE, factor=1):
        demand(related <= NO_SOURCE and factor >= -106, "a relation of unknown kind")
        self.related, self.factor = related, factor

    def part(self, sources):
        d = sources[self.related]
        return signed(d) >> (-100 - self.factor) if self.factor <= -100 else self.factor * d


NO_RELATION = Relation()


# DECODING EVENTS


class Descriptors:
    def __init__(self, fields, most, table, features):
        self.most, self.features = most, features
        self.events = fields.number()
        demand(self.events <= most, "more events than the head says")
        strings = [Fields(read_string(fields, 15 * most + 1)) for _ in range(20)]
        fields.end()
        self.definitions, self.counts, self.explicit = strings[0], strings[1], strings[6]
        self.paths, self.columns = Series(strings[2:6]), Series(strings[7:11])
        self.planes, self.relations = strings[11:19], strings[19]
        self.leaves = Leaves(table)
        self.define()
        self.first = self.explicit.number()
        self.read()
        for string in strings:
            string.end()

    def define(self):
        """KINDS: definitions."""
        self.kinds, key = [], 0
        while self.definitions.more():
            n = self.definitions.number()
            if n & 1:
                body = [self.definitions.number(len(self.kinds)) for _ in range(n >> 1)]
                demand(body, "a loop without a body")
                parameters = sum(self.kinds[k].arity for k in body)
                demand(parameters <= 2048, "a loop with too many parameters")
                self.kinds.append(Kind(None, body, [NO_SOURCE] * (1 + 2 * parameters)))
            else:
                key = (key + unfold(n >> 1)) & WORD
                self.kinds.append(Kind(key, None, self.leaves.sources(key)))
        distinct = {(k.key, tuple(k.body or ())) for k in self.kinds}
        demand(len(distinct) == len(self.kinds), "a kind is defined twice")

    def read(self):
        """Gives every kind its path, and every column its numbers."""
        definitions = sum(1 + len(kind.body or ()) for kind in self.kinds)
        for kind in self.kinds:
            kind.count = self.counts.number(self.events + 1)
        demand(sum(kind.count for kind in self.kinds) == self.events, "another number of events")
        parameters = sum(kind.count * kind.arity for kind in self.kinds)
        demand(self.events + parameters + definitions <= self.most, "more parameters than the head says")
        used = [(k, kind) for k, kind in enumerate(self.kinds) if kind.count]
        for k, kind in used:
            codes, flags = self.paths.next(kind.count)
            demand(not flags & LEAST, "a path with a least number")
            kind.path = iter(list(read_path(k, codes, self.explicit)))
        for _, kind in used:
            kind.numbers, kind.relations = [], []
            for _ in range(kind.arity):
                codes, flags = self.columns.next(kind.count)
                column = Column(self.columns.heads.number() if flags & LEAST else None)
                kind.numbers.append(list(column.numbers(codes, self.planes, self.features)))
        for _, kind in used:
            if kind.body is None and kind.count >= FREQUENT:
                kind.relations = [self.relation() for _ in range(kind.arity)]
            else:
                kind.relations = [NO_RELATION] * kind.arity
            kind.rows = enumerate(list(zip(*kind.numbers)) if kind.arity else [()] * kind.count)

    def relation(self):
        relation = Relation(self.relations.byte(), signed(self.relations.byte(), 8))
        if relation.related < NO_SOURCE:
            self.features.add("relation by shift" if relation.factor <= -100 else "relation")
        return relation

    def records(self):
        """DECODING EVENTS: one by one; each is expanded to its records."""
        sources = [0] * (NO_SOURCE + 1)
        k = self.first
        for _ in range(self.events):
            demand(0 <= k < len(self.kinds) and self.kinds[k].count, "an event of a kind that is not")
            kind = self.kinds[k]
            i, numbers = next(kind.rows, (None, None))
            demand(numbers is not None, "more events of a kind than there are")
            parameters = []
            for number, relation, source in zip(numbers, kind.relations, kind.sources):
                value = (number + (relation if i >= RELATED_FROM else NO_RELATION).part(sources)) & WORD
                if source < NO_SOURCE:
                    sources[source] = value
                parameters.append(value)
            yield from self.expand(kind, parameters)
            k = next(kind.path)

    def expand(self, kind, parameters):
        """KINDS: the records that an event stands for."""
        if kind.body is None:
            yield [kind.key, *parameters]
            return
        self.features.add("loop")
        trips, *rest = parameters
        values, strides = rest[: len(rest) // 2], rest[len(rest) // 2 :]
        demand(trips, "a loop without iterations")
        for trip in range(trips):
            if trip:
                values = [(v + s) & WORD for v, s in zip(values, strides)]
            at = 0
            for k in kind.body:
                inner = self.kinds[k]
                yield from self.expand(inner, values[at : at + inner.arity])
                at += inner.arity

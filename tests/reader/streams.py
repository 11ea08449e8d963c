"""The records of a thread, from what is stored of them: RECORDS, STREAM."""

from container import WORD, Fields, demand, signed, unfold, unzstd
from plans import FIRST

# ---------------------------------------------------------------------------------------------------------------------
# RECORDS

CUT, STATE, SIGNAL, SIGRETURN, LONE_LEFT = 2, 3, 4, 5, 6
SPECIAL_VALUES = {CUT: 5, STATE: 3, SIGNAL: 1, SIGRETURN: 0}
LEFT = (1 << 64) - (1 << 31)


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


# SEGMENTS


def read_segments(strings, sizes):
    """Segments of these sizes, from four strings."""
    modes, plain, runs, others = strings
    segments = []
    for size in sizes:
        mode = modes.number(257) if size else 0
        if mode == 0:
            segments.append(plain.bytes(size))
            continue
        favourite, segment = bytes([mode - 1]), b""
        for _ in range(modes.number(size + 1)):
            segment += favourite * runs.number(size) + others.bytes(1)
        demand(len(segment) <= size, "a segment is too long")
        segments.append(segment + favourite * (size - len(segment)))
    return segments


# KINDS


class Kind:
    def __init__(self, key, body, sources):
        self.key, self.body, self.sources = key, body, sources
        self.arity = len(sources)
        self.recent = [None] * 4


NO_SOURCE = 16


class Leaves:
    """Which records leaves stand for: sources of their parameters, and words behind these."""

    def __init__(self, table):
        self.table = table

    def sources(self, key):
        head, exit = divmod(key, 8)
        if head < 64:
            demand(exit == 0 and (head in SPECIAL_VALUES or head == LONE_LEFT), "a leaf that is not")
            return [NO_SOURCE] * SPECIAL_VALUES.get(head, 1)
        demand(head in self.table, f"leaf {key} is not defined")
        block = self.table[head]
        demand(exit <= len(block.ways_out) and block.words > 0, f"leaf {key} is not defined")
        if head == block.id:
            return list(block.sources)
        words = [slot - FIRST for slot in block.free]
        return [block.sources[w] if 0 <= w < len(block.sources) else NO_SOURCE for w in words]

    def records(self, key, parameters):
        head, exit = divmod(key, 8)
        if head == LONE_LEFT:
            yield [LEFT + parameters[0]]
            return
        yield [head, *parameters]
        if exit:
            yield [LEFT + self.table[head].ways_out[exit - 1].instruction]


# COLUMNS

STRIDE, RELATION, BEFORE, CONTEXT = range(4)


def place(number, value):
    return (value * 0x9E3779B97F4A7C15 & WORD ^ number * 0xC2B2AE3D27D4EB4F & WORD) >> 49


class Column:
    def __init__(self, number, source, shared):
        self.number, self.source, self.shared = number, min(source, NO_SOURCE), shared
        self.last = self.step = self.stride = self.anchor = 0
        self.related, self.factor = self.source, 1
        self.expected = RELATION

    def predict(self, code):
        if code == STRIDE:
            return (self.last + self.stride) & WORD
        if code == RELATION:
            distance = self.shared.sources[self.related] - self.anchor
            if self.factor <= -100:
                moved = signed(distance) >> (-100 - self.factor)
            else:
                moved = self.factor * distance
            return (self.last + moved) & WORD
        if code == BEFORE:
            return (self.last - self.step) & WORD
        return self.shared.table[place(self.number, self.last)]

    def note(self, value):
        self.shared.table[place(self.number, self.last)] = value

    def update(self, value):
        step = (value - self.last) & WORD
        if step == self.step:
            self.stride = step
        self.step, self.last = step, value
        self.anchor = self.shared.sources[self.related]
        if self.source < NO_SOURCE:
            self.shared.sources[self.source] = value


class Shared:
    """What all columns of a chunk share."""

    def __init__(self):
        self.sources = [0] * 17
        self.table = [0] * (1 << 15)


# CODES AND RESIDUALS, DECODING EVENTS

FAILED, FRESH, EXPLICIT = 8, 4, 5
MISS, RELATED = 4, 0x10
BASE_RELATION, BASE_LAST, BASE_LEAST = range(3)


class Descriptors:
    def __init__(self, fields, most, table, features):
        self.most, self.features = most, features
        self.events = fields.number()
        demand(self.events <= most, "more events than the head says")
        strings = [Fields(read_string(fields, 11 * most)) for _ in range(25)]
        fields.end()
        self.definitions, self.counts, self.explicit = strings[:3]
        self.ops, self.masks, self.heads, self.codes = strings[3:7], strings[7:11], strings[11], strings[12:16]
        self.planes, self.relations = strings[16:24], strings[24]
        self.strings = strings
        self.leaves = Leaves(table)
        self.define()
        self.sort()

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

    def sort(self):
        """Gives every kind its ops and masks, and every column its codes and residuals."""
        shared = Shared()
        self.columns = []
        all_ops = read_segments(self.ops, [self.counts.number(self.events + 1) for _ in self.kinds])
        demand(sum(map(len, all_ops)) == self.events, "another number of ops than of events")
        failed = [sum(1 for op in ops if op & FAILED) for ops in all_ops]
        mask_sizes = [(kind.arity + 7) // 8 for kind in self.kinds]
        all_masks = read_segments(self.masks, [n * size for n, size in zip(failed, mask_sizes)])
        for kind, ops, masks, size in zip(self.kinds, all_ops, all_masks, mask_sizes):
            kind.ops = iter(ops)
            each = [masks[at : at + size] for at in range(0, len(masks), max(size, 1))]
            kind.masks = iter([int.from_bytes(mask, "little") for mask in each])
            kind.columns = [Column(len(self.columns) + j, s, shared) for j, s in enumerate(kind.sources)]
            self.columns += kind.columns
        counts = [self.column_head(column) for column in self.columns]
        for column, codes in zip(self.columns, read_segments(self.codes, counts)):
            column.codes = iter(codes)
            column.residuals = iter([self.residual(code & ~RELATED) for code in codes if code & ~RELATED >= MISS])

    def column_head(self, column):
        count = self.heads.number(self.most + 1)
        column.base = self.heads.byte() if count else BASE_RELATION
        column.least = self.heads.number() if column.base == BASE_LEAST else 0
        demand(column.base <= BASE_LEAST, "a base of unknown kind")
        return count

    def residual(self, code):
        demand(code <= MISS + 8, "a code of unknown kind")
        return int.from_bytes(bytes(self.planes[b].byte() for b in range(code - MISS)), "little")

    def records(self):
        """DECODING EVENTS: one by one; each is expanded to its records."""
        fresh, parameters = 0, 0
        definitions = sum(1 + len(kind.body or ()) for kind in self.kinds)
        k = self.explicit.number(len(self.kinds)) if self.events else 0
        for i in range(self.events):
            kind = self.kinds[k]
            fresh = max(fresh, k + 1)
            op = self.next(kind.ops)
            demand(op < 16, "an op of unknown kind")
            mask = self.next(kind.masks) if op & FAILED else 0
            values = [self.value(column, mask >> j & 1) for j, column in enumerate(kind.columns)]
            parameters += len(values)
            demand(self.events + parameters + definitions <= self.most, "more parameters than the head says")
            yield from self.expand(kind, values)
            if i + 1 < self.events:
                k = self.next_kind(kind.recent, op & 7, fresh)
        for string in self.strings:
            string.end()
        for kind in self.kinds:
            demand(next(kind.ops, None) is None and next(kind.masks, None) is None, "ops are left over")
        for column in self.columns:
            demand(next(column.codes, None) is None, "codes are left over")

    @staticmethod
    def next(items):
        item = next(items, None)
        demand(item is not None, "a list ends too early")
        return item

    def next_kind(self, recent, symbol, fresh):
        if symbol < 4:
            k = recent.pop(symbol)
            demand(k is not None, "a successor that was not")
        else:
            demand(symbol in (FRESH, EXPLICIT), "a symbol of unknown kind")
            k = fresh if symbol == FRESH else self.explicit.number()
            demand(k < len(self.kinds), "an event of a kind that is not defined")
            recent.pop()
        recent.insert(0, k)
        return k

    def value(self, column, failed):
        value = column.predict(column.expected)
        if failed:
            byte = self.next(column.codes)
            code = byte & ~RELATED
            if code < MISS:
                value = column.predict(code)
                column.expected = code
                self.features.add(("stride", "relation", "before", "context")[code] + " expected")
            else:
                residual = self.next(column.residuals)
                self.features.add(("residual of a relation", "residual of the last", "residual of the least")[column.base])
                if column.base == BASE_RELATION:
                    value = column.predict(RELATION) + unfold(residual)
                elif column.base == BASE_LAST:
                    value = column.last + unfold(residual)
                else:
                    value = column.least + residual
                value &= WORD
            column.note(value)
            if byte & RELATED:
                related, factor = self.relations.byte(), signed(self.relations.byte(), 8)
                demand(related < NO_SOURCE and factor >= -106, "a relation of unknown kind")
                column.related, column.factor = related, factor
                self.features.add("relation by shift" if factor <= -100 else "relation")
        column.update(value)
        return value

    def expand(self, kind, parameters):
        """KINDS: the records that an event stands for."""
        if kind.body is None:
            yield from self.leaves.records(kind.key, parameters)
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

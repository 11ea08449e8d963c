"""STREAM: the records of one thread (trace-format.md)."""
from mtr_container import MASK, Bytes, need, signed, unzigzag, unzstd

# --------------------------------------------------------------------------------------------------- STREAM

CUT, STATE, SIGNAL, SIGRETURN = 2, 3, 4, 5
LEFT = (1 << 64) - (1 << 31)
FIXED = {16: (CUT, 5), 24: (STATE, 3), 32: (SIGNAL, 1), 40: (SIGRETURN, 0), 48: (LEFT, 1)}


class Kind:
    """A leaf has a key and sources, a loop has a body."""

    def __init__(self, number, parameters, sources, key=None, body=None):
        self.number, self.parameters, self.sources, self.key, self.body = number, parameters, sources, key, body
        self.recent, self.mask_bytes = [None] * 4, (parameters + 7) // 8


class Column:
    __slots__ = "number last step stride source related factor anchor expected codes at".split()

    def __init__(self, number, source):
        self.number, self.source, self.related = number, source, source
        self.last = self.step = self.stride = self.anchor = self.at = 0
        self.factor = self.expected = 1


class Stream:
    """The payload of one STREAM, decoded to state, stamps, kinds and events."""

    def __init__(self, chunk, blocks):
        self.chunk, self.blocks = chunk, blocks
        self.payload = payload = Bytes(chunk.payload, chunk.name)
        need(chunk.raw % 8 == 0, f"{chunk.name}: raw bytes are no multiple of 8")
        self.memory = chunk.raw // 8
        self.state = [payload.number() for _ in range(4)] + [self.list(), self.list()]
        self.stamps = [(payload.number(), payload.number()) for _ in range(payload.number())]
        self.check_stamps()
        self.count = payload.number()
        need(self.count <= self.memory, f"{chunk.name}: more events than raw bytes tell")
        self.strings = [self.string(number) for number in range(25)]
        payload.finish()
        self.define_kinds()
        self.make_columns()
        self.events = self.decode()
        for string in self.strings:
            string.finish()

    def list(self):
        count = self.payload.number()
        need(count <= 512, f"{self.chunk.name}: list of more than 512 words")
        return [self.payload.number() for _ in range(count)]

    # Stamps

    def check_stamps(self):
        accesses, ticks = (sum(column) for column in zip(*self.stamps)) if self.stamps else (0, 0)
        need(accesses <= self.chunk.accesses, f"{self.chunk.name}: stamps behind the last access")
        need(ticks <= self.chunk.end - self.chunk.begin, f"{self.chunk.name}: stamps behind the end")

    # Strings

    def string(self, number):
        name = f"{self.chunk.name}: string {number}"
        raw, n = self.payload.number(), self.payload.number()
        need(raw <= 11 * self.memory, f"{name}: too long")
        data = self.payload.take(n >> 1)
        if n & 1:
            data = unzstd(data, raw, name)
        need(len(data) == raw, f"{name}: length is wrong")
        return Bytes(data, name)

    # Segments

    def segments(self, first, lengths):
        modes, plain, runs, others = self.strings[first:first + 4]
        for length in lengths:
            if length == 0:
                yield b""
                continue
            mode = modes.number()
            if mode == 0:
                yield plain.take(length)
                continue
            need(mode <= 256, f"{modes.name}: favourite is no byte")
            favourite, segment = bytes([mode - 1]), bytearray()
            for _ in range(modes.number()):
                run = runs.number()
                need(run < length - len(segment), f"{runs.name}: longer than the segment")
                segment += favourite * run + others.take(1)
            yield bytes(segment + favourite * (length - len(segment)))

    # Kinds

    def define_kinds(self):
        definitions, kinds, key, in_bodies = self.strings[0], [], 0, 0
        seen = set()
        while definitions.left():
            n = definitions.number()
            if n & 1:
                body = tuple(definitions.number() for _ in range(n >> 1))
                need(body and max(body) < len(kinds), f"{definitions.name}: body of a loop")
                p = sum(kinds[kind].parameters for kind in body)
                need(p <= 2048, f"{definitions.name}: loop of more than 2048 parameters")
                kinds.append(Kind(len(kinds), 1 + 2 * p, [16] * (1 + 2 * p), body=[kinds[kind] for kind in body]))
                in_bodies += len(body)
                same = body
            else:
                key += unzigzag(n >> 1)
                kinds.append(self.leaf(len(kinds), key))
                same = key
            need(same not in seen, f"{definitions.name}: two definitions are the same")
            seen.add(same)
        self.kinds = kinds
        self.counts = [self.strings[1].number() for _ in kinds]
        need(sum(self.counts) == self.count, f"{self.chunk.name}: counts of kinds are not the count of events")
        parameters = sum(count * kind.parameters for count, kind in zip(self.counts, kinds))
        need(self.count + parameters + len(kinds) + in_bodies <= self.memory, f"{self.chunk.name}: raw bytes are too few")

    def leaf(self, number, key):
        if key in FIXED:
            return Kind(number, FIXED[key][1], [16] * FIXED[key][1], key)
        need(key >= 8 * 64, f"{self.chunk.name}: unknown key {key}")
        plan, later = self.blocks.get(key >> 3, self.chunk)
        need(plan.words > 0, f"{self.chunk.name}: block {plan.id} has no records")
        need(key & 7 < len(plan.left), f"{self.chunk.name}: block {plan.id} has no way out {key & 7}")
        sources = plan.sources
        if later:
            sources = [plan.sources[slot - 3] if slot >= 3 else 16 for slot in plan.free]
        return Kind(number, len(sources), sources, key)

    # Columns; codes and residuals

    def make_columns(self):
        self.columns, at = [], 0
        need(sum(kind.parameters for kind in self.kinds) <= 2 * self.memory, f"{self.chunk.name}: too many columns")
        for kind in self.kinds:
            kind.columns = [Column(at + j, source) for j, source in enumerate(kind.sources)]
            at += len(kind.columns)
            self.columns += kind.columns
        heads = []
        for column in self.columns:
            count = self.strings[11].number()
            base = self.strings[11].byte() if count else 0
            need(base < 3, f"{self.chunk.name}: unknown base {base}")
            heads.append((count, base, self.strings[11].number() if base == 2 else 0))
        planes = self.strings[16:24]
        for column, (_, base, least), codes in zip(self.columns, heads, self.segments(12, [head[0] for head in heads])):
            column.codes = []  # (prediction or None, related, base, residual or what it stands for)
            for code in codes:
                related, code = code & 0x10, code & ~0x10
                need(code <= 12, f"{self.chunk.name}: unknown code {code}")
                residual = sum(planes[b].byte() << 8 * b for b in range(code - 4))
                if code < 4:
                    column.codes.append((code, related, 0, 0))
                else:
                    column.codes.append((None, related, base, least + residual if base == 2 else unzigzag(residual)))

    def predict(self, column, which):
        if which == 0:
            return column.last + column.stride & MASK
        if which == 1:
            d, factor = self.sources[column.related] - column.anchor, column.factor
            return column.last + (signed(d) >> -100 - factor if factor <= -100 else factor * d) & MASK
        if which == 2:
            return column.last - column.step & MASK
        return self.table[place(column.number, column.last)]

    def by_code(self, column):
        need(column.at < len(column.codes), f"{self.chunk.name}: column {column.number} has no more codes")
        prediction, related, base, residual = column.codes[column.at]
        column.at += 1
        if prediction is not None:
            value = self.predict(column, prediction)
            column.expected = prediction
        elif base == 0:
            value = self.predict(column, 1) + residual & MASK
        elif base == 1:
            value = column.last + residual & MASK
        else:
            value = residual & MASK
        self.table[place(column.number, column.last)] = value
        if related:
            column.related, factor = self.strings[24].take(2)
            column.factor = signed(factor, 8)
            need(column.related < 16 and column.factor >= -106, f"{self.chunk.name}: unknown relation")
        return value

    def update(self, column, value):
        step = value - column.last & MASK
        if step == column.step:
            column.stride = step
        column.step, column.last = step, value
        column.anchor = self.sources[column.related]
        if column.source < 16:
            self.sources[column.source] = value

    # Decoding events

    def decode(self):
        """A list of (kind, parameters)."""
        self.sources, self.table = [0] * 17, [0] * (1 << 15)
        explicit = self.strings[2]
        failed = []
        for kind, ops in zip(self.kinds, self.segments(3, self.counts)):
            kind.ops = Bytes(ops, f"{self.chunk.name}: ops of kind {kind.number}")
            failed.append(sum(op >> 3 & 1 for op in ops))
        lengths = [count * kind.mask_bytes for count, kind in zip(failed, self.kinds)]
        for kind, masks in zip(self.kinds, self.segments(7, lengths)):
            kind.masks = Bytes(masks, f"{self.chunk.name}: masks of kind {kind.number}")
        events, fresh = [], 0
        kind = self.kind(explicit.number()) if self.count else None
        for left in range(self.count - 1, -1, -1):
            op = kind.ops.byte()
            need(op < 16, f"{self.chunk.name}: unknown op {op}")
            mask = int.from_bytes(kind.masks.take(kind.mask_bytes), "little") if op & 8 else 0
            need(mask >> kind.parameters == 0, f"{self.chunk.name}: mask is too wide")
            values = []
            for j, column in enumerate(kind.columns):
                value = self.by_code(column) if mask >> j & 1 else self.predict(column, column.expected)
                self.update(column, value)
                values.append(value)
            events.append((kind, values))
            fresh, symbol, recent = max(fresh, kind.number + 1), op & 7, kind.recent
            if not left:
                need(symbol == 0, f"{self.chunk.name}: symbol of the last event is not 0")
            elif symbol < 4:
                need(recent[symbol] is not None, f"{self.chunk.name}: no kind at this place")
                recent.insert(0, recent.pop(symbol))
                kind = recent[0]
            else:
                need(symbol < 6, f"{self.chunk.name}: unknown symbol")
                recent.insert(0, self.kind(fresh if symbol == 4 else explicit.number()))
                recent.pop()
                kind = recent[0]
        for kind in self.kinds:
            kind.ops.finish()
            kind.masks.finish()
        need(all(column.at == len(column.codes) for column in self.columns), f"{self.chunk.name}: codes are left over")
        return events

    def kind(self, number):
        need(number < len(self.kinds), f"{self.chunk.name}: there is no kind {number}")
        return self.kinds[number]

    def records(self):
        """The records that the events stand for, as tuples of words."""
        for kind, values in self.events:
            yield from self.expand(kind, values)

    def expand(self, kind, values):
        if kind.body is None:
            yield from self.leaf_records(kind.key, values)
            return
        trips, p = values[0], len(values) // 2
        need(trips >= 1, f"{self.chunk.name}: loop of no trips")
        need(trips <= self.chunk.words, f"{self.chunk.name}: loop of more trips than there are words")
        now, strides = values[1:1 + p], values[1 + p:]
        for trip in range(trips):
            if trip:
                now = [value + stride & MASK for value, stride in zip(now, strides)]
            at = 0
            for inner in kind.body:
                yield from self.expand(inner, now[at:at + inner.parameters])
                at += inner.parameters

    def leaf_records(self, key, values):
        if key == 48:
            need(values[0] < 1 << 31, f"{self.chunk.name}: LEFT {values[0]}")
            yield (LEFT + values[0],)
        elif key in FIXED:
            yield (FIXED[key][0], *values)
        else:
            yield (key >> 3, *values)
            if key & 7:
                yield (LEFT + self.blocks.get(key >> 3, self.chunk)[0].left[key & 7],)


def place(column, value):
    return (value * 0x9e3779b97f4a7c15 & MASK ^ column * 0xc2b2ae3d27d4eb4f & MASK) >> 49

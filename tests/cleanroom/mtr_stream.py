"""STREAM: the records of one thread (trace-format.md)."""
from mtr_container import MASK, Bytes, need, signed, unzigzag, unzstd

# --------------------------------------------------------------------------------------------------- STREAM

CUT, STATE, SIGNAL, SIGRETURN = 2, 3, 4, 5
FIXED = {CUT: 5, STATE: 3, SIGNAL: 1, SIGRETURN: 0}
# The words of each note behind its head.
NOTES = {8: 4, 9: 3, 10: 5, 11: 6, 12: 3, 13: 5, 14: 2, 15: 4, 16: 2, 17: 2, 18: 2, 19: 3, 20: 3, 21: 3, 22: 3, 23: 2, 24: 6}
FIXED.update(NOTES)


class Kind:
    """A leaf has a key and sources, a loop has a body."""

    def __init__(self, number, parameters, sources, key=None, body=None):
        self.number, self.parameters, self.sources, self.key, self.body = number, parameters, sources, key, body


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
        self.strings = [self.string(number) for number in range(20)]
        payload.finish()
        self.define_kinds()
        self.read_paths()
        self.read_columns()
        self.read_relations()
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
        need(raw <= 15 * self.memory + 1, f"{name}: too long")
        data = self.payload.take(n >> 1)
        if n & 1:
            data = unzstd(data, raw, name)
        need(len(data) == raw, f"{name}: length is wrong")
        return Bytes(data, name)

    # Series

    def series(self, first, length):
        """The next series: a code for each place, 0 where it is as expected; its head's flag L, and the least number."""
        heads, runs, sparse, dense = self.strings[first:first + 4]
        head = heads.number()
        least = heads.number() if head & 2 else None
        if head & 1:
            need(head < 4, f"{heads.name}: codes of a dense series are counted")
            return dense.take(length), least
        codes = bytearray()
        for _ in range(head >> 2):
            run, code = runs.number(), sparse.byte()
            need(code and run < length - len(codes), f"{runs.name}: behind the series")
            codes += bytes(run) + bytes([code])
        return bytes(codes) + bytes(length - len(codes)), least

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
            return Kind(number, FIXED[key], [16] * FIXED[key], key)
        need(key >= 64, f"{self.chunk.name}: unknown key {key}")
        plan, left, later = self.blocks.get(key, self.chunk)
        need(plan.words > 0, f"{self.chunk.name}: block {plan.id} has no records")
        sources = plan.sources if left is None else plan.sources[:plan.ways[left].words - 1]
        if later:
            sources = [plan.sources[slot - 3] if slot >= 3 else 16 for slot in plan.free]
        return Kind(number, len(sources), sources, key)

    # Paths

    def used(self):
        return [(kind, count) for kind, count in zip(self.kinds, self.counts) if count]

    def read_paths(self):
        explicit = self.strings[6]
        self.first = explicit.number()
        need(self.count or self.first == 0, f"{explicit.name}: a first kind without events")
        for kind, count in self.used():
            recent, kind.path = [kind.number + 1] + [kind.number] * 3, []
            codes, least = self.series(2, count)
            need(least is None, f"{self.chunk.name}: a path with a least number")
            for code in codes:
                need(code < 5, f"{self.chunk.name}: unknown code {code} in a path")
                new = kind.number + unzigzag(explicit.number()) if code == 4 else recent[code]
                del recent[3 if code == 4 else code]
                recent.insert(0, new)
                kind.path.append(new)

    # Columns

    def read_columns(self):
        for kind, count in self.used():
            kind.numbers = [self.numbers(*self.series(7, count)) for _ in range(kind.parameters)]

    def numbers(self, codes, least):
        last = step = stride = 0
        back, numbers, planes = False, [], self.strings[11:19]
        for code in codes:
            need(code <= 10, f"{self.chunk.name}: unknown code {code}")
            if code == 1:
                back = not back
            if code < 2:
                number = last - step if back else last + stride
            else:
                residual = sum(planes[b].byte() << 8 * b for b in range(code - 2))
                number = last + unzigzag(residual) if least is None else least + residual
            number &= MASK
            if number - last & MASK == step:
                stride = step
            step, last = number - last & MASK, number
            numbers.append(number)
        return numbers

    # Relations

    def read_relations(self):
        for kind, count in self.used():
            kind.relations = []
            if kind.body is None and count >= 64:
                for _ in range(kind.parameters):
                    related, factor = self.strings[19].take(2)
                    factor = signed(factor, 8)
                    need(related <= 16 and factor >= -106, f"{self.chunk.name}: unknown relation")
                    kind.relations.append((related, factor))

    @staticmethod
    def part(d, factor):
        return signed(d) >> -100 - factor if factor <= -100 else factor * d

    # Decoding events

    def decode(self):
        """A list of (kind, parameters)."""
        sources, events, number = [0] * 16, [], self.first
        seen = [0] * len(self.kinds)
        for _ in range(self.count):
            kind = self.kind(number)
            at = seen[number]
            need(at < self.counts[number], f"{self.chunk.name}: more events of kind {number} than its count")
            seen[number] += 1
            values = []
            for j, source in enumerate(kind.sources):
                value = kind.numbers[j][at]
                if kind.relations and at >= 32 and kind.relations[j][0] < 16:
                    related, factor = kind.relations[j]
                    value = value + self.part(sources[related], factor) & MASK
                if source < 16:
                    sources[source] = value
                values.append(value)
            events.append((kind, values))
            number = kind.path[at]
        return events

    def kind(self, number):
        need(0 <= number < len(self.kinds), f"{self.chunk.name}: there is no kind {number}")
        return self.kinds[number]

    def records(self):
        """The records that the events stand for, as tuples of words."""
        for kind, values in self.events:
            yield from self.expand(kind, values)

    def expand(self, kind, values):
        if kind.body is None:
            yield kind.key, *values
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

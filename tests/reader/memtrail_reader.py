#!/usr/bin/env python3
"""An independent reader of memtrail recordings, written from docs/trace-format.md alone.

It decodes a whole file to its accesses and believes nothing: checksums, heads, index, counts and totals are all
verified. It is made to be compared with the page and with `memtrail dump`, not to be fast. Headings in capitals name the
section of the page that the code below them follows.

    memtrail_reader.py FILE              every access, one thread after the other
    memtrail_reader.py --thread T FILE   the accesses of one thread, as `memtrail dump --thread T FILE` prints them
    memtrail_reader.py --check FILE      only verify
    memtrail_reader.py --features FILE   only verify, and name what of the format the file makes use of
"""

import argparse
import json
import struct
import sys
import zlib

import zstandard

VERSION = 2
WORD = (1 << 64) - 1
LOW32 = (1 << 32) - 1


class Damage(Exception):
    """The file is not what the page says."""


def demand(holds, what):
    if not holds:
        raise Damage(what)


# ---------------------------------------------------------------------------------------------------------------------
# CONVENTIONS


def signed(value, bits=64):
    """A two's complement number of so many bits."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def unfold(n):
    """The number that a signed number's `n` stands for, modulo 2^64."""
    return ((n >> 1) ^ -(n & 1)) & WORD


class Fields:
    """Takes fields off the front of some bytes."""

    def __init__(self, data):
        self.data = data
        self.at = 0

    def bytes(self, count):
        demand(count <= len(self.data) - self.at, "a field runs past the end")
        self.at += count
        return self.data[self.at - count : self.at]

    def byte(self):
        return self.bytes(1)[0]

    def number(self, below=1 << 64):
        value = 0
        for shift in range(0, 70, 7):
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                demand(value < below, "a number is out of range")
                return value
        raise Damage("a number of more than ten bytes")

    def signed(self):
        return unfold(self.number())

    def text(self):
        return self.bytes(self.number())

    def numbers(self, most):
        count = self.number()
        demand(count <= most, "a list is too long")
        return [self.number() for _ in range(count)]

    def more(self):
        return self.at < len(self.data)

    def end(self):
        demand(not self.more(), "bytes are left over")


def unzstd(frame, length):
    demand(length <= len(frame) << 15, "a zstd frame of impossible size")
    try:
        data = zstandard.ZstdDecompressor().decompress(frame, max_output_size=length)
    except zstandard.ZstdError as error:
        raise Damage(f"zstd: {error}") from error
    demand(len(data) == length, "a zstd frame of another length")
    return data


# ---------------------------------------------------------------------------------------------------------------------
# CONTAINER

BLOCKS, EVENTS, STREAM, INDEX, END = 1, 2, 3, 4, 5
HEAD = struct.Struct("<4sIIIQQQQQIIII")
HEAD_FIELDS = ("kind", "thread", "process", "first", "accesses", "begin", "end", "words", "stored", "raw")
MOST_BYTES = {BLOCKS: 1 << 22, EVENTS: 1 << 22, STREAM: 1 << 28, INDEX: 1 << 28, END: 1 << 28}


def read_json(data, needed):
    """A JSON object that has these fields."""
    try:
        value = json.loads(data)
    except ValueError as error:
        raise Damage(f"JSON: {error}") from error
    demand(isinstance(value, dict) and set(needed.split()) <= value.keys(), "a JSON object without all its fields")
    return value


class Chunk:
    """A chunk: its place, its head and its payload, both verified."""

    def __init__(self, data, at):
        demand(len(data) - at >= HEAD.size, "the file is cut off")
        magic, *fields, payload_crc, crc = HEAD.unpack_from(data, at)
        demand(magic == b"MTRK", "no chunk begins here")
        demand(crc == zlib.crc32(data[at : at + HEAD.size - 4]), "the CRC of a head differs")
        self.at = at
        self.head = dict(zip(HEAD_FIELDS, fields))
        self.kind = self.head["kind"]
        demand(self.kind in MOST_BYTES, "a chunk of unknown kind")
        demand(max(self.head["stored"], self.head["raw"]) <= MOST_BYTES[self.kind], "a chunk of impossible size")
        if self.kind != STREAM:
            demand(not any(fields[1:8]), "a chunk that is no stream has a stream's head")
        self.end = at + HEAD.size + self.head["stored"]
        demand(self.end <= len(data), "the file is cut off")
        self.payload = data[at + HEAD.size : self.end]
        demand(payload_crc == zlib.crc32(self.payload), "the CRC of a payload differs")


class File:
    """A complete recording: header, chunks, totals."""

    def __init__(self, data):
        demand(data[:8] == b"memtrail", "not a recording")
        demand(len(data) >= 20, "the file is cut off")
        version, length, crc = struct.unpack_from("<III", data, 8)
        demand(version == VERSION, f"a recording of version {version}")
        demand(length <= min(1 << 24, len(data)), "a header of impossible size")
        header = data[20 : 20 + length]
        demand(len(header) == length and zlib.crc32(header) == crc, "the CRC of the header differs")
        self.header = read_json(header, "pid xcr0 xsave")
        self.chunks = []
        at = 20 + length
        while not self.chunks or self.chunks[-1].kind != END:
            self.chunks.append(Chunk(data, at))
            at = self.chunks[-1].end
        *self.chunks, index, end = self.chunks
        demand(index.kind == INDEX, "END does not follow INDEX")
        self.totals = read_json(end.payload, "accesses reads writes prefetches bytes instructions blocks ring_words")
        self.check_footer(data[at:], index)
        self.check_index(index)

    # INDEX, END, FOOTER

    def check_footer(self, footer, index):
        demand(len(footer) == 16, "the footer is not all that follows END")
        place, crc, magic = struct.unpack("<QI4s", footer)
        demand(magic == b"MTRE" and crc == zlib.crc32(footer[:8]), "the footer is damaged")
        demand(place == index.at, "INDEX is not where the footer says")

    def check_index(self, index):
        columns = unpack(index, 10)
        kind, stored, raw, thread, process, first, accesses, begin, end, words = columns
        after = {}
        for chunk in self.chunks:
            head = dict.fromkeys(HEAD_FIELDS, 0)
            head.update(kind=kind.number(), stored=stored.number(), raw=raw.number())
            if head["kind"] == STREAM:
                serial = thread.number()
                first_before, time_before = after.get(serial, (0, 0))
                head.update(thread=serial, process=process.number(), accesses=accesses.number(), words=words.number())
                head["first"] = (first_before + first.signed()) & WORD
                head["begin"] = (time_before + begin.signed()) & WORD
                head["end"] = (head["begin"] + end.signed()) & WORD
                after[serial] = (head["first"] + head["accesses"], head["end"])
            demand(head == chunk.head, f"the index differs from the head at {chunk.at}")
        for column in columns:
            column.end()


# ---------------------------------------------------------------------------------------------------------------------
# PACKED PAYLOADS


def unpack(chunk, count):
    fields = Fields(chunk.payload)
    lengths = [(fields.number(), fields.number()) for _ in range(count)]
    demand(sum(raw for raw, _ in lengths) == chunk.head["raw"], "the columns have another size than the head says")
    columns = []
    for raw, stored in lengths:
        demand(stored <= raw, "a column is longer than it is")
        data = fields.bytes(stored)
        columns.append(Fields(data if stored == raw else unzstd(data, raw)))
    fields.end()
    return columns


# ---------------------------------------------------------------------------------------------------------------------
# PLANS

RSP, FS, GS, FIRST = 0, 1, 2, 3
READ, WRITE, PREFETCH = 0, 1, 2


class Lin:
    """A linear form of slots."""

    def __init__(self, c, *terms):
        self.c = c
        self.terms = terms

    def __call__(self, slots, offset=0):
        value = self.c + offset
        for slot, scale in self.terms:
            value += scale * slots[slot]
        return value & WORD


class Addr:
    def __init__(self, lin, low32=False, segment=None):
        self.lin, self.low32, self.segment = lin, low32, segment

    def __call__(self, slots, offset=0):
        value = self.lin(slots, offset)
        if self.low32:
            value &= LOW32
        if self.segment is not None:
            value += slots[self.segment]
        return value & WORD


class Step:
    def __init__(self, slot, by, low32, plus):
        self.slot, self.by, self.low32, self.plus = slot, by, low32, plus

    def take(self, slots):
        value = slots[self.slot] + self.by
        if self.plus:
            slot, scale = self.plus
            value += scale * slots[slot]
        slots[self.slot] = value & (LOW32 if self.low32 else WORD)


class Derived:
    def __init__(self, narrow, of):
        self.bits = (8, 16, 32)[narrow % 3]
        self.extends_sign = narrow >= 3
        self.of = of

    def __call__(self, slots):
        value = self.of(slots) & ((1 << self.bits) - 1)
        return signed(value, self.bits) & WORD if self.extends_sign else value


# Shapes. `accesses(kind, slots, xsave)` gives (kind, address, size); `partial` what is made of an access by the
# instruction at which a block was cut.


class Shape:
    def partial(self, kind, slots, cut):
        return ()


class Plain(Shape):
    def __init__(self, addr, size):
        self.addr, self.size = addr, size

    def accesses(self, kind, slots, xsave):
        return ((kind, self.addr(slots), self.size),)


class Line(Plain):
    def accesses(self, kind, slots, xsave):
        return ((kind, self.addr(slots) & -self.size & WORD, self.size),)


class Repeat(Shape):
    def __init__(self, low32, moved_is_rsi, source, dest, size, before, after, pointer, moved):
        self.cut_to = LOW32 if low32 else WORD
        self.moved_is_rsi = moved_is_rsi
        self.source, self.dest, self.size = source, dest, size
        self.before, self.after, self.pointer, self.moved = before, after, pointer, moved

    def accesses(self, kind, slots, xsave):
        return self.elements(slots, slots[self.after], slots[self.moved])

    def partial(self, kind, slots, cut):
        return self.elements(slots, cut.rcx, cut.rsi if self.moved_is_rsi else cut.rdi)

    def elements(self, slots, after, moved):
        count = (self.before(slots) - after) & self.cut_to
        down = moved & self.cut_to < self.pointer(slots) & self.cut_to
        step = -self.size if down else self.size
        for i in range(count):
            if self.source:
                yield READ, self.source(slots, i * step), self.size
            if self.dest:
                addr, kind = self.dest
                yield kind, addr(slots, i * step), self.size


def element(slots, first, size, i):
    """Element `i`, of `size` bytes, of the vector that begins in slot `first`."""
    word, byte = divmod(i * size, 8)
    return slots[first + word] >> 8 * byte & ((1 << 8 * size) - 1)


class Vector(Shape):
    """What elements, lanes, broadcasts and packed vectors share."""

    def __init__(self, addr, lanes, active, size):
        self.addr, self.lanes, self.active, self.size = addr, lanes, active, size

    def active_lanes(self, slots):
        return [i for i in range(self.lanes) if self.active(slots, i)]


class Elements(Vector):
    def accesses(self, kind, slots, xsave):
        return [(kind, self.addr(slots, i * self.size), self.size) for i in self.active_lanes(slots)]


class Broadcast(Vector):
    def accesses(self, kind, slots, xsave):
        return [(kind, self.addr(slots), self.size) for _ in self.active_lanes(slots)[:1]]


class Packed(Vector):
    def accesses(self, kind, slots, xsave):
        return [(kind, self.addr(slots, j * self.size), self.size) for j, _ in enumerate(self.active_lanes(slots))]


class Lanes(Vector):
    def __init__(self, addr, index, index_bytes, scale, *vector):
        super().__init__(addr, *vector)
        self.index, self.index_bytes, self.scale = index, index_bytes, scale

    def accesses(self, kind, slots, xsave, done=WORD):
        for i in self.active_lanes(slots):
            if done >> i & 1:
                index = signed(element(slots, self.index, self.index_bytes, i), 8 * self.index_bytes)
                yield kind, self.addr(slots, index * self.scale), self.size

    def partial(self, kind, slots, cut):
        return self.accesses(kind, slots, None, cut.lanes)


class BitWord(Shape):
    def __init__(self, addr, bit, size):
        self.addr, self.bit, self.size = addr, bit, size

    def accesses(self, kind, slots, xsave):
        bit = signed(self.bit(slots), 8 * self.size)
        return ((kind, self.addr(slots, bit // (8 * self.size) * self.size), self.size),)


class Xstate(Shape):
    def __init__(self, addr, low, high, layout):
        self.addr, self.low, self.high, self.layout = addr, low, high, layout

    def accesses(self, kind, slots, xsave):
        xcr0, components = xsave
        asked = xcr0 & (self.low(slots) & LOW32 | self.high(slots) << 32)
        compact, present = self.layout == 1, asked
        if self.layout >= 2:
            present = slots[self.layout - 2]
            compact = present >> 63 == 1
        extent = following = 576
        for index, size, offset, aligned in sorted(components):
            if compact:
                if not present >> index & 1:
                    continue
                offset = (following + 63) // 64 * 64 if aligned else following
                following = offset + size
            if asked >> index & 1:
                extent = max(extent, offset + size)
        return ((kind, self.addr(slots), extent),)


class WayOut:
    def __init__(self, instruction, rsp, moved):
        self.instruction, self.rsp, self.moved = instruction, rsp, moved


class Block:
    def __init__(self, id, pc, words, sources):
        self.id, self.pc, self.words, self.sources = id, pc, words, sources
        self.derived = []
        self.offsets = []
        self.bytes = 0
        self.accesses = []  # (instruction, kind, shape)
        self.ways_out = []
        self.exit_rsp = None
        self.steps = []
        self.counter = None  # of an affine loop
        self.free = None  # of a partly affine loop

    def ids(self):
        return 1 if self.free is None else 2

    def derive(self, slots):
        first = FIRST + max(self.words - 1, 0)
        for i, derived in enumerate(self.derived):
            slots[first + i] = derived(slots)


# ---------------------------------------------------------------------------------------------------------------------
# BLOCKS


class BlocksDecoder:
    def __init__(self, chunk):
        self.columns = unpack(chunk, 14)
        (self.flags, self.id, self.pc, self.jump, self.words, self.source, self.instruction) = self.columns[:7]
        (self.access, self.stack, self.rsp, self.slot, self.offset, self.address, self.rare) = self.columns[7:]
        self.likely_id = 64
        self.likely_pc = self.likely_address = 0
        self.ends = []

    def blocks(self):
        while self.flags.more():
            yield self.block()
        for column in self.columns:
            column.end()

    def block(self):
        flags = self.flags.byte()
        demand(flags in (0, 1, 2, 3, 4, 5), "a block of unknown kind")
        id = (self.likely_id + self.id.signed()) & WORD
        demand(64 <= id < (1 << 31) - 1, "a block id is out of range")
        back = self.pc.number()
        demand(back <= len(self.ends), "a block begins at an end that is not known")
        pc = self.ends.pop(-back) if back else (self.likely_pc + self.jump.signed()) & WORD
        words = self.words.number(1 << 16)
        block = Block(id, pc, words, self.source.bytes(max(words - 1, 0)))
        self.likely_rsp, self.likely_slot = 0, FIRST
        if flags & 1:
            for _ in range(self.rare.number(1 << 16)):
                narrow = self.rare.byte()
                demand(narrow < 6, "a derived value of unknown kind")
                block.derived.append(Derived(narrow, self.lin()))
        self.instructions(block, affine=flags & 2)
        block.exit_rsp = self.stack_pointer()
        if flags & 6:
            block.steps = [self.step() for _ in range(self.rare.number(1 << 16))]
        if flags & 2:
            block.counter = self.step()
            demand(words >= 2 and block.counter.by, "an affine loop without a counter")
        if flags & 4:
            block.free = [self.rare.number(1 << 16) for _ in range(self.rare.number(1 << 16))]
        self.likely_id = id + block.ids()
        self.likely_pc = (pc + block.bytes) & WORD
        self.ends.append(self.likely_pc)
        if len(self.ends) == 33:
            self.ends.pop(0)
        return block

    def instructions(self, block, affine):
        byte = 0
        while not byte & 0x80:
            byte = self.instruction.byte()
            length = byte & 0xF or self.rare.number(1 << 16)
            count = byte >> 5 & 3
            if count == 3:
                count = self.rare.number(1 << 16)
            number = len(block.offsets)
            block.offsets.append(block.bytes)
            block.bytes += length
            pushes = length <= 2 or byte & 0x80
            for _ in range(count):
                block.accesses.append((number, *self.one_access(pushes)))
            if byte & 0x10:
                rsp = self.stack_pointer()
                moved = self.rare.signed() if affine else 0
                block.ways_out.append(WayOut(number, rsp, moved))

    def stack_pointer(self):
        n = self.rsp.number()
        if n == 0:
            return self.lin()
        self.likely_rsp = (self.likely_rsp + unfold(n - 1)) & WORD
        return Lin(self.likely_rsp, (RSP, 1))

    def one_access(self, pushes):
        byte = self.access.byte()
        kind, size, form = byte & 3, 1 << (byte >> 2 & 7), byte >> 5
        demand(kind <= PREFETCH, "an access of unknown kind")
        if form == 0:
            c = (self.likely_rsp + self.stack.signed()) & WORD
            if pushes:
                self.likely_rsp = (c + size) & WORD if kind == READ else c
            return kind, Plain(Addr(Lin(c, (RSP, 1))), size)
        if form == 1:
            slot = self.next_slot()
            return kind, Plain(Addr(Lin(self.offset.signed(), (slot, 1))), size)
        if form == 2:
            self.likely_address = (self.likely_address + self.address.signed()) & WORD
            return kind, Plain(Addr(Lin(self.likely_address)), size)
        if form == 3:
            first, second = self.next_slot(), self.next_slot()
            scale = self.scale()
            return kind, Plain(Addr(Lin(self.offset.signed(), (first, 1), (second, scale))), size)
        if form == 4:
            return kind, Plain(Addr(Lin(self.offset.signed()), segment=FS), size)
        demand(byte & 0xFC == 0xE0, "an address of unknown form")
        return kind, self.shape()

    def next_slot(self):
        slot = (self.likely_slot - self.slot.signed()) & WORD
        demand(slot < 1 << 16, "a slot is out of range")
        self.likely_slot = max(self.likely_slot, slot + 1)
        return slot

    def scale(self):
        scale = signed(self.rare.signed())
        demand(-(1 << 31) <= scale < 1 << 31, "a scale is out of range")
        return scale

    def lin(self):
        n = self.rare.byte()
        demand(n <= 3, "a form of too many terms")
        terms = [(self.rare.number(1 << 16), self.scale()) for _ in range(n)]
        return Lin(self.rare.signed(), *terms)

    def addr(self):
        head = self.rare.number()
        lin = self.lin()
        return Addr(lin, bool(head & 1), (head >> 1) - 1 if head >> 1 else None)

    def step(self):
        flags = self.rare.byte()
        demand(flags < 4, "a step of unknown kind")
        slot, by = self.rare.number(1 << 16), signed(self.rare.signed())
        plus = (self.rare.number(1 << 16), self.scale()) if flags & 2 else None
        return Step(slot, by, bool(flags & 1), plus)

    def vector(self):
        lanes, mask = self.rare.byte(), self.rare.byte()
        demand(mask <= 2, "a mask of unknown kind")
        if mask == 0:
            active = lambda slots, i: True
        elif mask == 1:
            slot = self.rare.number(1 << 16)
            active = lambda slots, i: slots[slot] >> i & 1
        else:
            first, size = self.rare.number(1 << 16), self.rare.byte()
            active = lambda slots, i: element(slots, first, size, i) >> (8 * size - 1)
        return lanes, active, self.rare.byte()

    def shape(self):
        rare = self.rare
        tag = rare.byte()
        if tag == 1:
            return self.repeat()
        demand(tag <= 8, "an access of unknown shape")
        addr = self.addr()
        if tag in (0, 7):
            return (Plain if tag == 0 else Line)(addr, rare.number(1 << 32))
        if tag == 2:
            index, index_bytes, scale = rare.number(1 << 16), rare.byte(), rare.byte()
            return Lanes(addr, index, index_bytes, scale, *self.vector())
        if tag == 6:
            return BitWord(addr, self.lin(), rare.byte())
        if tag == 8:
            return Xstate(addr, self.lin(), self.lin(), rare.number(1 << 17))
        return {3: Elements, 4: Broadcast, 5: Packed}[tag](addr, *self.vector())

    def repeat(self):
        flags = self.rare.byte()
        source = self.addr() if flags & 4 else None
        dest = (self.addr(), (flags >> 3) - 1) if flags >> 3 else None
        demand(flags >> 3 <= 3, "an access of unknown kind")
        size, before, after = self.rare.byte(), self.lin(), self.rare.number(1 << 16)
        pointer, moved = self.lin(), self.rare.number(1 << 16)
        return Repeat(bool(flags & 1), bool(flags & 2), source, dest, size, before, after, pointer, moved)


# ---------------------------------------------------------------------------------------------------------------------
# EVENTS

PROCESS, THREAD, THREAD_END, MAP, UNMAP, EXIT, WARN, MODULE = range(1, 9)
EXEC = 2


def decode_events(chunk):
    (fields,) = unpack(chunk, 1)
    address = time = 0
    while fields.more():
        kind = fields.byte()
        demand(PROCESS <= kind <= MODULE, "an event of unknown kind")
        event = {"event": kind}
        if kind == MODULE:
            event["path"] = fields.text()
            length = fields.number()
            event["build_id"] = fields.bytes(length - 1) if length else None
        else:
            event["process"] = fields.number(1 << 32)
        if kind == PROCESS:
            event["serial"] = fields.number(1 << 32)
            event["parent"] = fields.number(1 << 32) - 1
            event["pid"], event["how"] = fields.number(1 << 32), fields.number(1 << 32)
        elif kind in (THREAD, THREAD_END):
            event["serial"] = fields.number(1 << 32)
            event["tid" if kind == THREAD else "status"] = fields.number(1 << 32)
            event["time"] = time = (time + fields.signed()) & WORD
        elif kind in (MAP, UNMAP):
            event["address"] = (address + fields.signed()) & WORD
            event["length"] = fields.number()
            address = (event["address"] + event["length"]) & WORD
            if kind == MAP:
                event["offset"], event["protection"] = fields.number(), fields.number(1 << 32)
                event["path"] = fields.text()
        elif kind == EXIT:
            event["status"] = fields.number()
        elif kind == WARN:
            event["text"] = fields.text()
        yield event


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


# CODES AND RESIDUALS, EVENTS

FAILED, FRESH, EXPLICIT = 8, 4, 5
MISS, RELATED = 4, 0x10
BASE_RELATION, BASE_LAST, BASE_LEAST = range(3)


class Descriptors:
    def __init__(self, fields, most, table, features):
        self.most, self.features = most, features
        self.events = fields.number()
        demand(self.events <= most, "more events than the head says")
        strings = [Fields(read_string(fields, 12 * most + (1 << 16))) for _ in range(25)]
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
        """EVENTS: decodes them one by one and expands each to its records."""
        fresh, parameters = 0, 0
        k = self.explicit.number(len(self.kinds)) if self.events else 0
        for i in range(self.events):
            kind = self.kinds[k]
            fresh = max(fresh, k + 1)
            op = self.next(kind.ops)
            demand(op < 16, "an op of unknown kind")
            mask = self.next(kind.masks) if op & FAILED else 0
            values = [self.value(column, mask >> j & 1) for j, column in enumerate(kind.columns)]
            parameters += len(values)
            demand(self.events + parameters <= self.most, "more parameters than the head says")
            yield from self.expand(kind, values)
            if i + 1 < self.events:
                k = self.next_kind(kind.recent, op & 7, fresh)
        demand(self.events + parameters == self.most, "another number of parameters than the head says")
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


# ---------------------------------------------------------------------------------------------------------------------
# FROM RECORDS TO ACCESSES


class Cut:
    def __init__(self, instruction, rcx, rsi, rdi, lanes):
        self.instruction, self.rcx, self.rsi, self.rdi, self.lanes = instruction, rcx, rsi, rdi, lanes


class Counts:
    def __init__(self):
        self.kinds = [0, 0, 0]
        self.bytes = self.instructions = self.blocks = 0
        self.features = set()


class Thread:
    """The records of one thread, one by one, and the accesses that follow."""

    def __init__(self, serial, table, xsave, counts, out):
        self.serial, self.table, self.xsave, self.counts, self.out = serial, table, xsave, counts, out
        self.carried = [0, 0, 0]
        self.slots = []
        self.loop = None  # the partly affine loop whose next iteration may follow
        self.held = None  # the last block record, until the next record shows how it was left
        self.made = 0  # accesses so far

    def state(self):
        values = self.slots[FIRST : FIRST + self.loop.words - 1] if self.loop else []
        loop = 1 + self.loop.id if self.loop else 0
        return {"carried": list(self.carried), "loop": loop, "values": values, "held": self.held or []}

    def record(self, record):
        head = record[0]
        if head == CUT or head >= LEFT:
            demand(self.held, "a CUT or LEFT that follows no block")
            held, self.held = self.held, None
            self.execute(held, record)
            return
        self.finish()
        if head >= 64:
            self.held = record
        elif head == STATE:
            self.carried = record[1:]
        else:
            self.counts.features.add({SIGNAL: "signal", SIGRETURN: "sigreturn"}[head])

    def finish(self):
        """The last record is taken as it is."""
        if self.held:
            held, self.held = self.held, None
            self.execute(held, None)

    def execute(self, record, after):
        block = self.table[record[0]]
        cut = way_out = None
        if after and after[0] == CUT:
            cut = Cut(*after[1:])
            self.counts.features.add("cut")
            demand(cut.instruction < len(block.offsets), "a CUT behind the block")
        elif after:
            ways = [w for w in block.ways_out if LEFT + w.instruction == after[0]]
            demand(ways, "a LEFT through no way out")
            way_out = ways[0]
            self.counts.features.add("left")
        # 1. Load
        if record[0] == block.id:
            self.slots = self.carried + record[1:] + [0] * len(block.derived)
        else:
            demand(self.loop is block, "an iteration without the first")
            self.counts.features.add("partly affine loop")
            for slot, value in zip(block.free, record[1:]):
                self.slots[slot] = value
        self.slots[RSP : GS + 1] = self.carried
        # 2. Adjust
        exit_slot = FIRST + block.words - 2
        if way_out and block.counter:
            value = self.slots[exit_slot] - way_out.moved
            self.slots[exit_slot] = value & (LOW32 if block.counter.low32 else WORD)
        # 3. Count
        whole = 0 if after else 1
        if block.counter:
            whole = self.iterations(block.counter, self.slots[exit_slot], bool(after))
            self.counts.features.add("affine loop")
        # 4. Whole iterations
        for _ in range(whole):
            block.derive(self.slots)
            for instruction, kind, shape in block.accesses:
                self.make(block, instruction, shape, shape.accesses(kind, self.slots, self.xsave))
            rsp = block.exit_rsp(self.slots)
            for step in block.steps:
                step.take(self.slots)
            self.slots[RSP] = rsp
            self.counts.blocks += 1
            self.counts.instructions += len(block.offsets)
        # 5. The last, partial one
        if after:
            block.derive(self.slots)
            before = cut.instruction if cut else way_out.instruction + 1
            for instruction, kind, shape in block.accesses:
                if instruction < before:
                    self.make(block, instruction, shape, shape.accesses(kind, self.slots, self.xsave))
                elif cut and instruction == before:
                    self.make(block, instruction, shape, shape.partial(kind, self.slots, cut))
            self.counts.blocks += 1
            self.counts.instructions += before
        # 6. Carry
        if way_out:
            self.carried[RSP] = way_out.rsp(self.slots)
        elif not cut:
            self.carried[RSP] = self.slots[RSP]
        self.loop = block if block.free is not None and not after else None

    def iterations(self, counter, exit, left_early):
        distance = exit - self.slots[counter.slot]
        if counter.by < 0:
            distance = -distance
        size = abs(counter.by)
        whole = (distance & (LOW32 if counter.low32 else WORD)) // size
        if whole == 0 and not left_early:
            demand(counter.low32 and size & (size - 1) == 0, "a loop without iterations")
            whole = (1 << 32) // size
        return whole

    def make(self, block, instruction, shape, accesses):
        pc = (block.pc + block.offsets[instruction]) & WORD
        for kind, address, size in accesses:
            self.counts.features.add(type(shape).__name__)
            self.made += 1
            self.counts.kinds[kind] += 1
            if kind != PREFETCH:
                self.counts.bytes += size
            if self.out:
                self.out(f"{self.serial} {pc:#x} {'RWP'[kind]} {address:#x} {size}\n")


# ---------------------------------------------------------------------------------------------------------------------
# The whole file


class Recording:
    """Reads a file once, in order; `lines` has the accesses of each thread."""

    def __init__(self, data, wanted=None, keep=True):
        self.file = File(data)
        self.xsave = (self.file.header["xcr0"], self.file.header["xsave"])
        self.table = {}  # by id; a partly affine loop has two
        self.counts = Counts()
        self.threads, self.processes, self.known_threads, self.execs = {}, set(), set(), set()
        self.lines = {}
        self.wanted, self.keep = wanted, keep
        self.words = 0
        for chunk in self.file.chunks:
            try:
                {BLOCKS: self.blocks, EVENTS: self.events, STREAM: self.stream}[chunk.kind](chunk)
            except Damage as damage:
                raise Damage(f"the chunk at byte {chunk.at}: {damage}") from damage
            except IndexError as error:
                raise Damage(f"the chunk at byte {chunk.at}: a plan refers to a slot that is not there") from error
        for thread in self.threads.values():
            thread.finish()
        self.check_totals()

    def blocks(self, chunk):
        for block in BlocksDecoder(chunk).blocks():
            for id in range(block.id, block.id + block.ids()):
                demand(id not in self.table, f"block {id} is defined twice")
                self.table[id] = block

    def events(self, chunk):
        for event in decode_events(chunk):
            if event["event"] == THREAD:
                self.known_threads.add(event["serial"])
            if event["event"] == PROCESS:
                self.processes.add(event["serial"])
                if event["how"] == EXEC:
                    self.execs.add(event["serial"])

    def stream(self, chunk):
        head, serial = chunk.head, chunk.head["thread"]
        demand(serial in self.known_threads, f"thread {serial} was not introduced")
        state, stamps, records = decode_stream(chunk, self.table, self.counts.features)
        thread = self.threads.get(serial)
        first = thread is None
        if first:
            lines = self.lines.setdefault(serial, [])
            wanted = self.keep and self.wanted in (None, serial)
            thread = Thread(serial, self.table, self.xsave, self.counts, lines.append if wanted else None)
            self.threads[serial] = thread
        # What a reader would go on from that begins here. At an exec it begins anew.
        counts_go_on = head["process"] not in self.execs
        if first or counts_go_on:
            demand(state == thread.state(), "the state is not that of the reader")
            demand(head["first"] == thread.made, "accesses before this chunk are missing")
        before = thread.made
        words = 0
        for record in records:
            words += len(record)
            demand(words <= head["words"], "more words than the head says")
            thread.record(record)
        demand(words == head["words"], "fewer words than the head says")
        if counts_go_on:
            demand(thread.made - before == head["accesses"], "another number of accesses than the head says")
        demand(head["begin"] <= head["end"], "a chunk ends before it begins")
        self.words += words

    def features(self):
        met = set(self.counts.features)
        if len(self.threads) > 1:
            met.add("threads")
        if len(self.processes) > 1:
            met.add("processes")
        if self.execs:
            met.add("exec")
        if len(self.threads) < sum(chunk.kind == STREAM for chunk in self.file.chunks):
            met.add("several chunks of a thread")
        return met

    def check_totals(self):
        reads, writes, prefetches = self.counts.kinds
        found = {
            "accesses": reads + writes + prefetches,
            "reads": reads,
            "writes": writes,
            "prefetches": prefetches,
            "bytes": self.counts.bytes,
            "instructions": self.counts.instructions,
            "blocks": self.counts.blocks,
            "ring_words": self.words,
        }
        for name, value in found.items():
            said = self.file.totals[name]
            demand(value == said, f"{name}: {value}, but the totals say {said}")


def main():
    parser = argparse.ArgumentParser(description="Reads a memtrail recording.")
    parser.add_argument("--thread", type=int, help="print only this thread, by its serial number")
    parser.add_argument("--check", action="store_true", help="print no accesses")
    parser.add_argument("--features", action="store_true", help="print what of the format is made use of instead")
    parser.add_argument("file")
    arguments = parser.parse_args()
    with open(arguments.file, "rb") as file:
        data = file.read()
    try:
        recording = Recording(data, arguments.thread, not (arguments.check or arguments.features))
    except Damage as damage:
        sys.exit(f"{arguments.file}: {damage}")
    if arguments.features:
        print("\n".join(sorted(recording.features())))
    for serial in sorted(recording.lines):
        sys.stdout.writelines(recording.lines[serial])


if __name__ == "__main__":
    main()

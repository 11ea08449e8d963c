"""The file as chunks with checked heads and payloads: CONVENTIONS, CONTAINER, INDEX, END, FOOTER, PACKED PAYLOADS."""

import json
import struct
import zlib

import zstandard

VERSION = 7
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
MOST_BYTES = {BLOCKS: 1 << 22, EVENTS: 1 << 22, STREAM: 1 << 26, INDEX: 1 << 28, END: 1 << 28}


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
        demand(not self.header.get("features"), "the file makes use of what is not known here")
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

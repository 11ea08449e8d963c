"""Conventions, container and packed payloads of a memtrail recording (trace-format.md)."""
import json
import struct
import zlib

import zstandard

# ---------------------------------------------------------------------------------------------- Conventions

MASK = (1 << 64) - 1
LOW = (1 << 32) - 1


class Damage(Exception):
    """The file contradicts the page or itself."""


class CutOff(Exception):
    """The file ends too early."""


def need(condition, message):
    if not condition:
        raise Damage(message)


def unzigzag(n):
    return (n >> 1) ^ -(n & 1)


def signed(value, bits=64):
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


class Bytes:
    """A string of bytes that fields are taken off the front of."""

    def __init__(self, data, name):
        self.data, self.at, self.name = data, 0, name

    def byte(self):
        if self.at >= len(self.data):
            raise Damage(f"{self.name} ends too early")
        self.at += 1
        return self.data[self.at - 1]

    def number(self):
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                break
            need(shift < 70, f"{self.name}: number of more than ten bytes")
        need(value <= MASK, f"{self.name}: number of more than 64 bits")
        return value

    def signed(self):
        return unzigzag(self.number())

    def take(self, count):
        need(count <= len(self.data) - self.at, f"{self.name} ends too early")
        self.at += count
        return self.data[self.at - count:self.at]

    def text(self):
        return self.take(self.number())

    def left(self):
        return self.at < len(self.data)

    def finish(self):
        need(not self.left(), f"{self.name}: {len(self.data) - self.at} bytes are left over")


def unzstd(stored, raw_length, name):
    """Exactly one zstd frame, of exactly the given length."""
    need(raw_length <= len(stored) << 15, f"{name}: raw length is not believable")
    unpacker = zstandard.ZstdDecompressor().decompressobj()
    try:
        raw = unpacker.decompress(stored)
    except zstandard.ZstdError as error:
        raise Damage(f"{name}: {error}") from error
    need(len(raw) == raw_length, f"{name}: {len(raw)} bytes instead of {raw_length}")
    need(unpacker.eof and not unpacker.unused_data, f"{name}: not one whole zstd frame")
    return raw


# ------------------------------------------------------------------------------------------------ Container

BLOCKS, EVENTS, STREAM, INDEX, END = range(1, 6)
NAMES = {BLOCKS: "BLOCKS", EVENTS: "EVENTS", STREAM: "STREAM", INDEX: "INDEX", END: "END"}
HEAD = struct.Struct("<4sIIIQQQQQIIII")
MOST = {BLOCKS: 1 << 22, EVENTS: 1 << 22, STREAM: 1 << 26, INDEX: 1 << 28, END: 1 << 28}


class Chunk:
    """A chunk's head, checked, and its payload, whose CRC was checked."""

    def __init__(self, data, offset, number):
        if len(data) - offset < HEAD.size:
            raise CutOff(f"cut off at byte {offset}, within the head of a chunk")
        self.offset, self.number = offset, number
        (magic, self.kind, self.thread, self.process, self.first, self.accesses, self.begin, self.end, self.words,
         self.stored, self.raw, payload_crc, head_crc) = HEAD.unpack_from(data, offset)
        self.name = f"chunk {number} ({NAMES.get(self.kind, self.kind)}) at byte {offset}"
        need(magic == b"MTRK", f"{self.name}: does not begin with MTRK")
        need(zlib.crc32(data[offset:offset + 68]) == head_crc, f"{self.name}: CRC of the head is wrong")
        need(self.kind in NAMES, f"{self.name}: unknown kind")
        need(max(self.stored, self.raw) <= MOST[self.kind], f"{self.name}: too long")
        if self.kind != STREAM:
            need(not any(data[offset + 8:offset + 56]), f"{self.name}: has fields of a stream")
        if self.kind == END:
            need(self.raw == self.stored, f"{self.name}: raw bytes differ from stored bytes")
        start = offset + HEAD.size
        self.after = start + self.stored
        if self.after > len(data):
            raise CutOff(f"cut off at byte {offset}, within {self.name}")
        self.payload = data[start:self.after]
        need(zlib.crc32(self.payload) == payload_crc, f"{self.name}: CRC of the payload is wrong")


def read_prologue(data):
    """The header, and where the first chunk begins."""
    if data[:8] != b"memtrail"[:len(data)]:
        raise Damage("not a recording")
    if len(data) < 20:
        raise CutOff("cut off within the prologue")
    version, length, crc = struct.unpack_from("<III", data, 8)
    need(version == 7, f"version {version} is not known")
    need(length <= 1 << 24, "header is too long")
    if 20 + length > len(data):
        raise CutOff("cut off within the header")
    header = data[20:20 + length]
    need(zlib.crc32(header) == crc, "CRC of the header is wrong")
    try:
        header = json.loads(header)
    except ValueError as error:
        raise Damage(f"header: {error}") from error
    need(not header.get("features"), f"features {header.get('features')} are not known")
    return header, 20 + length


# ------------------------------------------------------------------------------------------ Packed payloads


def unpack_columns(chunk, names):
    payload = Bytes(chunk.payload, chunk.name)
    lengths = [(payload.number(), payload.number()) for _ in names]
    columns = []
    for name, (raw, stored) in zip(names, lengths):
        need(stored <= raw, f"{chunk.name}: column {name}: stored length is larger")
        column = payload.take(stored)
        if stored != raw:
            column = unzstd(column, raw, f"{chunk.name}: column {name}")
        columns.append(Bytes(column, f"{chunk.name}: column {name}"))
    payload.finish()
    need(sum(raw for raw, _ in lengths) == chunk.raw, f"{chunk.name}: raw bytes are not the sum of raw lengths")
    return columns

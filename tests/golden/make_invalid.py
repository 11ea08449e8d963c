"""Makes invalid recordings out of a valid one: `make_invalid.py VALID DIRECTORY SUFFIX`.

Each is wrong in one way that its name says. Checksums and the index are made anew where the damage is meant to be found
behind them. Run by the test that makes the golden files; see README.md.
"""

import json
import os
import struct
import sys
import zlib

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "reader"))
from container import BLOCKS, END, EVENTS, HEAD, HEAD_FIELDS, INDEX, STREAM, VERSION, Fields, File, unpack
from memtrail_reader import Recording
from streams import read_string

STRING_NAMES = """definitions counts path_heads path_runs path_sparse path_dense explicit column_heads column_runs
    column_sparse column_dense plane0 plane1 plane2 plane3 plane4 plane5 plane6 plane7 relations""".split()


def number(n):
    out = b""
    while n >= 0x80:
        out += bytes([n & 0x7F | 0x80])
        n >>= 7
    return out + bytes([n])


def fold(n):
    """Of a number with a sign, the number that is written."""
    return number(2 * n if n >= 0 else -2 * n - 1)


def packed(columns):
    """A payload of columns, none of them compressed, and its raw length."""
    lengths = b"".join(number(len(c)) * 2 for c in columns)
    return lengths + b"".join(columns), sum(map(len, columns))


def chunk(head, payload):
    fields = [head[name] for name in HEAD_FIELDS]
    data = HEAD.pack(b"MTRK", *fields, zlib.crc32(payload), 0)[:-4]
    return data + struct.pack("<I", zlib.crc32(data)) + payload


def head_of(kind, payload, raw):
    return {**dict.fromkeys(HEAD_FIELDS, 0), "kind": kind, "stored": len(payload), "raw": raw}


class Draft:
    """A recording in parts that can be changed, and put together again."""

    def __init__(self, data):
        file = File(data)
        self.version = VERSION
        self.header = json.dumps(file.header).encode()
        self.chunks = [(dict(c.head), c.payload) for c in file.chunks]
        self.totals = json.dumps(file.totals).encode()

    def find(self, kind):
        return next(i for i, (head, _) in enumerate(self.chunks) if head["kind"] == kind)

    def replace(self, kind, payload, raw):
        """Gives the first chunk of a kind another payload."""
        i = self.find(kind)
        head = {**self.chunks[i][0], "stored": len(payload), "raw": raw}
        self.chunks[i] = (head, payload)

    def columns(self, kind, count):
        head, payload = self.chunks[self.find(kind)]
        fake = type("Chunk", (), {"head": head, "payload": payload})
        return [c.data for c in unpack(fake, count)]

    def change_columns(self, kind, count, change):
        columns = self.columns(kind, count)
        change(columns)
        self.replace(kind, *packed(columns))
        return self

    def change_head(self, of, **fields):
        self.chunks[self.find(of)][0].update(fields)
        return self

    def change_stream(self, change):
        """`change` gets a dictionary with the state's numbers, the number of events and the strings."""
        head, payload = self.chunks[self.find(STREAM)]
        fields = Fields(payload)
        parts = {"carried": [fields.number() for _ in range(3)], "loop": fields.number()}
        parts["values"], parts["held"] = fields.numbers(512), fields.numbers(512)
        parts["stamps"] = [(fields.number(), fields.number()) for _ in range(fields.number())]
        parts["events"] = fields.number()
        parts["strings"] = [read_string(fields, 1 << 28) for _ in STRING_NAMES]
        change(parts)
        out = b"".join(map(number, parts["carried"] + [parts["loop"]]))
        for name in ("values", "held"):
            out += number(len(parts[name])) + b"".join(map(number, parts[name]))
        out += number(len(parts["stamps"])) + b"".join(number(n) for stamp in parts["stamps"] for n in stamp)
        out += number(parts["events"])
        for string in parts["strings"]:
            out += number(len(string)) + number(2 * len(string)) + string
        self.replace(STREAM, out, head["raw"])
        return self

    def set_stream(self, words, events, parameters, **strings):
        """Another stream, of these strings; the others are empty."""
        every = [strings.get(name, b"") for name in STRING_NAMES]
        out = bytes(7) + number(events) + b"".join(number(len(s)) + number(2 * len(s)) + s for s in every)
        self.replace(STREAM, out, 8 * (events + parameters))
        return self.change_head(STREAM, words=words, accesses=0)

    def set_leaf(self, key, parameters):
        """A stream that is one record, whose parameters are zero."""
        strings = {"definitions": number(4 * key), "counts": b"\1", "explicit": b"\0", "path_heads": b"\0"}
        return self.set_stream(1 + parameters, 1, parameters, column_heads=bytes(parameters), **strings)

    def set_cut(self, head, values):
        """A stream that is a record, whose values are zero, and a CUT."""
        strings = {"definitions": number(2 * 2 * head) + number(2 * (2 * (head - 2) - 1)), "counts": b"\1\1"}
        strings |= {"explicit": b"\0", "path_heads": b"\0\0", "column_heads": bytes(values + 5)}
        return self.set_stream(1 + values + 6, 2, values + 5 + 2, **strings)

    def set_loop(self, trips):
        """A stream that is a loop over SIGRETURN."""
        strings = {"definitions": number(4 * 5) + b"\3\0", "counts": b"\0\1", "explicit": b"\1", "path_heads": b"\0"}
        return self.set_stream(1, 1, 1, column_heads=b"\3" + number(trips), column_dense=b"\2", **strings)

    def blocks(self):
        """All blocks, in order."""
        return dict.fromkeys(Recording(self.data(), keep=False).table.values())

    def index(self):
        columns = [b""] * 10
        after = {}
        for head, _ in self.chunks:
            fields = [number(head[name]) for name in ("kind", "stored", "raw")]
            if head["kind"] == STREAM:
                first, time = after.get(head["thread"], (0, 0))
                fields += [number(head["thread"]), number(head["process"]), fold(head["first"] - first)]
                fields += [number(head["accesses"]), fold(head["begin"] - time), fold(head["end"] - head["begin"])]
                fields += [number(head["words"])]
                after[head["thread"]] = (head["first"] + head["accesses"], head["end"])
            for i, field in enumerate(fields):
                columns[i] += field
        return columns

    def prologue(self):
        fields = struct.pack("<III", self.version, len(self.header), zlib.crc32(self.header))
        return b"memtrail" + fields + self.header

    def data(self, index=None):
        out = self.prologue() + b"".join(chunk(head, payload) for head, payload in self.chunks)
        place = struct.pack("<Q", len(out))
        payload, raw = packed(index or self.index())
        out += chunk(head_of(INDEX, payload, raw), payload)
        out += chunk(head_of(END, self.totals, len(self.totals)), self.totals)
        return out + place + struct.pack("<I4s", zlib.crc32(place), b"MTRE")


def string(name, change):
    """A change of a string of a stream."""
    i = STRING_NAMES.index(name)

    def changed(parts):
        parts["strings"][i] = change(parts["strings"][i])

    return changed


def column(i, change):
    def changed(columns):
        columns[i] = change(columns[i])

    return changed


def block_with(draft, flag, rare):
    """The first block with what a flag stands for."""

    def change(columns):
        columns[0] = bytes([columns[0][0] | flag]) + columns[0][1:]
        columns[13] = rare + columns[13]

    return draft.change_columns(BLOCKS, 16, change).data()


def block_with_pieces(draft, head):
    """The first block with a second piece."""
    return block_with(draft, 8, b"\1" + head + fold(100))


def block_with_derived(draft, lowest, bits):
    """The first block with a derived value."""
    return block_with(draft, 1, number(1) + bytes([lowest, bits, 0]) + fold(0))


def is_loop(block):
    return block.free is not None or block.counter is not None


def way_out_of_more_words(draft):
    """The first way out of a block that is no loop has more words than the block."""
    words, more = b"", 1000
    for block in draft.blocks():
        words += number(block.words)
        before = 1
        for way_out in [] if is_loop(block) else block.ways_out:
            words += number(way_out.words - before + more)
            before, more = way_out.words, 0
    return draft.change_columns(BLOCKS, 16, column(4, lambda _: words)).data()


def put(data, at, new):
    return data[:at] + new + data[at + len(new) :]


def flip(data, at):
    return put(data, at, bytes([data[at] ^ 1]))


def first_of(kind, data):
    return next(c.at for c in File(data).chunks if c.kind == kind)


def invalid(data):
    """Name and bytes of each."""
    first = len(Draft(data).prologue())
    draft = lambda: Draft(data)
    plain = draft().data()
    stream = first_of(STREAM, plain)
    end = len(plain) - 16 - len(draft().totals) - HEAD.size
    (index,) = struct.unpack_from("<Q", plain, len(plain) - 16)

    # The prologue.
    yield "empty", b""
    yield "not_a_recording", flip(plain, 0)
    yield "prologue_cut_off", plain[:15]
    yield "header_cut_off", plain[: first - 1]
    yield "version_older", put(plain, 8, struct.pack("<I", VERSION - 1))
    yield "version_newer", put(plain, 8, struct.pack("<I", VERSION + 1))
    yield "header_too_long", put(plain, 12, struct.pack("<I", (1 << 24) + 1))
    yield "header_checksum", flip(plain, 16)
    d = draft()
    d.header = d.header[:-1]
    yield "header_no_json", d.data()
    d = draft()
    d.header = json.dumps({k: v for k, v in json.loads(d.header).items() if k != "xsave"}).encode()
    yield "header_without_xsave", d.data()
    d = draft()
    d.header = json.dumps({**json.loads(d.header), "features": ["streams of sets", "holograms"]}).encode()
    yield "header_of_unknown_features", d.data()

    # Cut off.
    yield "cut_off_behind_header", plain[:first]
    yield "cut_off_in_first_head", plain[: first + HEAD.size - 1]
    yield "cut_off_in_stream_head", plain[: stream + 10]
    yield "cut_off_in_stream", plain[: stream + HEAD.size + 10]
    yield "cut_off_before_index", plain[:index]
    yield "cut_off_in_index", plain[: index + HEAD.size + 1]
    yield "cut_off_in_totals", plain[: end + HEAD.size + 5]
    yield "cut_off_before_footer", plain[:-16]
    yield "cut_off_in_footer", plain[:-1]

    # Damaged bytes.
    yield "head_magic", flip(plain, first)
    yield "head_checksum", flip(plain, first + 60)
    yield "blocks_checksum", flip(plain, first_of(BLOCKS, plain) + HEAD.size)
    yield "events_checksum", flip(plain, first_of(EVENTS, plain) + HEAD.size)
    yield "stream_head_checksum", flip(plain, stream + 16)
    yield "stream_checksum", flip(plain, stream + HEAD.size + 3)
    yield "index_checksum", flip(plain, index + HEAD.size)
    yield "totals_checksum", flip(plain, end + HEAD.size)
    yield "footer_checksum", flip(plain, len(plain) - 8)
    yield "footer_magic", flip(plain, len(plain) - 1)
    wrong = struct.pack("<Q", index + 1)
    yield "footer_elsewhere", plain[:-16] + wrong + struct.pack("<I4s", zlib.crc32(wrong), b"MTRE")
    yield "bytes_behind_footer", plain + b"\0"

    # Heads, index and totals that contradict.
    yield "kind_unknown", draft().change_head(EVENTS, kind=6).data()
    yield "stored_bytes_impossible", draft().change_head(STREAM, stored=(1 << 28) + 1).data()
    yield "raw_bytes_impossible", draft().change_head(BLOCKS, raw=(1 << 22) + 1).data()
    yield "blocks_with_a_thread", draft().change_head(BLOCKS, thread=1).data()
    d = draft()
    columns = d.index()
    columns[6] = number(d.chunks[d.find(STREAM)][0]["accesses"] + 1)
    yield "index_differs", d.data(columns)
    d = draft()
    kinds, stored, raw, *rest = d.index()
    yield "index_leaves_a_chunk_out", d.data([kinds[:1], Fields(stored).bytes(2), Fields(raw).bytes(2), *[b""] * 7])
    columns = d.index()
    columns[0] += b"\1"
    columns[1] += b"\1"
    columns[2] += b"\1"
    yield "index_tells_of_more_chunks", d.data(columns)
    d = draft()
    d.totals = b"{}"
    yield "totals_incomplete", d.data()
    d = draft()
    d.totals = json.dumps({**json.loads(d.totals), "accesses": 1}).encode()
    yield "totals_differ", d.data()

    d = draft()
    totals = json.loads(d.totals)
    totals["verify"][0]["hash"] = "0x0123456789abcdef"
    d.totals = json.dumps(totals).encode()
    yield "hash_differs", d.data()

    # Packed payloads.
    d = draft()
    d.replace(EVENTS, number(1 << 40) + number(4) + b"abcd", 1 << 20)
    yield "column_impossible", d.data()
    d = draft()
    d.replace(EVENTS, number(9) + number(4) + b"abcd", 9)
    yield "column_no_zstd", d.data()
    d = draft()
    yield "columns_of_another_size", d.change_head(EVENTS, raw=d.chunks[d.find(EVENTS)][0]["raw"] + 1).data()

    # Blocks.
    blocks = lambda i, change: draft().change_columns(BLOCKS, 16, column(i, change)).data()
    yield "block_of_two_loops", blocks(0, lambda c: b"\6" + c[1:])
    yield "block_twice", blocks(1, lambda c: c[:1] + fold(-1) + c[2:])
    yield "block_id_too_low", blocks(1, lambda c: fold(-1) + c[1:])
    yield "block_id_too_high", blocks(1, lambda c: fold(1 << 31) + c[1:])
    yield "block_begins_at_no_end", blocks(2, lambda c: b"\1" + c[1:])
    yield "block_piece_of_nothing", block_with_pieces(draft(), number(0))
    yield "block_piece_behind_its_end", block_with_pieces(draft(), number(5000 << 2))
    yield "block_piece_reached_somehow", block_with_pieces(draft(), number(1 << 2 | 3))
    yield "block_derived_of_no_bits", block_with_derived(draft(), 0, 0x80)
    yield "block_derived_of_all_bits", block_with_derived(draft(), 0, 64)
    yield "block_derived_of_bits_past_the_end", block_with_derived(draft(), 60, 5)
    yield "block_way_out_of_more_words", way_out_of_more_words(draft())
    yield "block_slot_missing", blocks(10, lambda c: fold(-1000) + c[1:])
    yield "block_access_of_unknown_form", blocks(7, lambda c: b"\xa0" + c[1:])
    yield "block_in_no_image", blocks(14, lambda c: fold(1000) + c[1:])
    yield "block_in_an_image_below_0", blocks(14, lambda c: fold(-1) + c[1:])
    yield "block_code_missing", blocks(15, lambda c: c[:-1])
    yield "block_code_left_over", blocks(15, lambda c: c + b"\x90")
    yield "block_code_anew_but_not_there", blocks(0, lambda c: bytes([c[0] & 0xF | 0x20]) + c[1:])
    yield "block_bytes_left_over", blocks(13, lambda c: c + b"\0")
    yield "block_cut_off", blocks(6, lambda c: c[:-1])

    # Events.
    events = lambda change: draft().change_columns(EVENTS, 1, column(0, change)).data()
    yield "event_unknown", events(lambda c: c + b"\x0c\0")
    yield "image_of_no_module", events(lambda c: c + b"\x0b\0" + number(1000) + fold(0))
    yield "module_of_unknown_kind", events(lambda c: c + b"\x08\0\0\0\2")
    yield "event_cut_off", events(lambda c: c[:-1])
    yield "hook_of_unknown_kind", events(lambda c: c + b"\x0a\0\0\4\0\0\0")

    # Streams.
    changed = lambda change: draft().change_stream(change).data()
    yield "state_too_long", changed(lambda p: p.update(held=[64] * 513))
    yield "state_with_a_special_record_held", changed(lambda p: p.update(held=[5]))
    yield "string_missing", changed(lambda p: p["strings"].pop())
    yield "string_too_many", changed(lambda p: p["strings"].append(b""))
    yield "events_more_than_raw_bytes", changed(lambda p: p.update(events=1 << 20))
    yield "leaf_unknown", changed(string("definitions", lambda s: number(2 * 2 * 60000) + s[1:]))
    yield "loop_over_itself", changed(string("definitions", lambda s: s + b"\3\x7f"))
    yield "loop_over_nothing", changed(string("definitions", lambda s: s + b"\1"))
    yield "kind_twice", changed(string("definitions", lambda s: s + b"\0"))
    yield "counts_differ", changed(string("counts", lambda s: bytes([s[0] + 1]) + s[1:]))
    yield "first_kind_undefined", changed(string("explicit", lambda s: b"\x7f" + s[1:]))
    yield "path_code_unknown", changed(string("path_dense", lambda s: b"\5" + s[1:]))
    yield "path_ends_elsewhere", changed(string("explicit", lambda s: s[:1] + b"\x7e" + s[2:]))
    yield "path_with_a_least_number", changed(string("path_heads", lambda s: bytes([s[0] | 2]) + s[1:]))
    yield "path_head_missing", changed(string("path_heads", lambda s: s[:-1]))
    yield "run_too_long", changed(string("column_runs", lambda s: b"\x7f" + s[1:]))
    yield "sparse_code_of_nothing", changed(string("column_sparse", lambda s: b"\0" + s[1:]))
    yield "dense_code_left_over", changed(string("column_dense", lambda s: s + b"\0"))
    yield "dense_codes_counted", changed(string("column_heads", lambda s: s.replace(b"\1", b"\5", 1)))
    yield "head_of_no_column", changed(string("column_heads", lambda s: s + b"\0"))
    yield "code_unknown", changed(string("column_dense", lambda s: b"\x0b" + s[1:]))
    yield "residual_missing", changed(string("plane0", lambda s: s[:-1]))
    yield "relation_left_over", changed(string("relations", lambda s: s + b"\0\1"))
    yield "words_differ", draft().change_head(STREAM, words=1).data()
    yield "loop_without_trips", draft().set_loop(0).data()
    yield "loop_without_end", draft().set_loop(1 << 63).data()

    # Records.
    yield "cut_of_no_block", draft().set_leaf(2, 5).data()
    block = next(block for block in draft().blocks() if block.ways_out and not is_loop(block))
    yield "cut_of_a_way_out", draft().set_cut(block.id + 1, block.ways_out[0].words - 1).data()
    yield "gap_without_reason", draft().set_leaf(24, 6).data()
    d = draft().set_leaf(9, 3)
    nothing = dict.fromkeys("accesses reads writes prefetches bytes instructions blocks".split(), 0)
    totals = {**json.loads(d.totals), **nothing, "ring_words": 4, "verify": []}
    d.totals = json.dumps(totals).encode()
    yield "note_of_no_function", d.data()
    loop = next(block for block in draft().blocks() if block.free is not None)
    steady = loop.id + 1 + len(loop.ways_out)
    yield "iteration_without_the_first", draft().set_leaf(steady, len(loop.free)).data()


def main():
    valid, directory, suffix = sys.argv[1:]
    with open(valid, "rb") as file:
        data = file.read()
    seen = set()
    for name, broken in invalid(data):
        assert name not in seen and broken != data, name
        seen.add(name)
        with open(os.path.join(directory, name + suffix), "wb") as file:
            file.write(broken)


if __name__ == "__main__":
    main()

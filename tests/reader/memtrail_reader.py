#!/usr/bin/env python3
"""A second reader of memtrail recordings: it follows docs/trace-format.md and shares no code with memtrail.

It decodes a whole file to its accesses and believes nothing: checksums, heads, index, counts and totals are all
verified. It is made to be compared with the page and with `memtrail dump`, not to be fast. Headings in capitals name the
section of the page that the code below them follows; container.py, plans.py and streams.py have the others.

    memtrail_reader.py FILE              every access, one thread after the other
    memtrail_reader.py --thread T FILE   the accesses of one thread, as `memtrail dump --thread T FILE` prints them
    memtrail_reader.py --check FILE      only verify
    memtrail_reader.py --features FILE   only verify, and name what of the format the file makes use of
"""

import argparse
import sys

from container import BLOCKS, EVENTS, LOW32, STREAM, WORD, Damage, File, demand, unpack
from plans import FIRST, GS, PREFETCH, RSP, BlocksDecoder, Code
from streams import CUT, HOOK_OF, NO_TEXT, NOTES, SIGNAL, SIGRETURN, STATE, TEXT_OF, decode_stream

# ---------------------------------------------------------------------------------------------------------------------
# EVENTS

PROCESS, THREAD, THREAD_END, MAP, UNMAP, EXIT, WARN, MODULE, TEXT, HOOK, IMAGE = range(1, 12)
EXEC = 2


def decode_events(chunk):
    (fields,) = unpack(chunk, 1)
    address = time = 0
    while fields.more():
        kind = fields.byte()
        demand(PROCESS <= kind <= IMAGE, "an event of unknown kind")
        event = {"event": kind, "process": fields.number(1 << 32)}
        if kind == MODULE:
            event["path"] = fields.text()
            length = fields.number()
            event["build_id"] = fields.bytes(length - 1) if length else None
            event["generated"] = fields.number(2)
        elif kind == IMAGE:
            event["module"] = fields.number(1 << 32)
            event["base"] = address = (address + fields.signed()) & WORD
        elif kind == PROCESS:
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
        elif kind == TEXT:
            event["id"], event["text"] = fields.number(1 << 32), fields.text()
        elif kind == HOOK:
            event["id"], event["kind"] = fields.number(1 << 32), fields.number(1 << 32)
            demand(1 <= event["kind"] <= 3, "a hook of unknown kind")
            event["by_user"] = fields.number()
            event["address"] = address = (address + fields.signed()) & WORD
            event["text"] = fields.number(1 << 32)
        yield event


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

    def __init__(self, serial, table, xsave, counts, out, defined):
        self.defined = defined
        self.serial, self.table, self.xsave, self.counts, self.out = serial, table, xsave, counts, out
        self.carried = [0, 0, 0]
        self.slots = []
        self.loop = None  # the partly affine loop whose next iteration may follow
        self.held = None  # the last block record, until the next record shows how it was left
        self.made = 0  # accesses so far
        self.hash = 0
        self.time = 0  # the end of the last chunk
        self.note_number = 0  # the least that the next note may have
        self.gaps = 0

    def state(self):
        values = self.slots[FIRST : FIRST + self.loop.words - 1] if self.loop else []
        loop = 1 + self.loop.id if self.loop else 0
        return {"carried": list(self.carried), "loop": loop, "values": values, "held": self.held or []}

    def record(self, record):
        head = record[0]
        if head == CUT:
            demand(self.held, "a CUT that follows no block")
            held, self.held = self.held, None
            self.execute(held, Cut(*record[1:]))
            return
        self.finish()
        if head >= 64:
            self.held = record
        elif head == STATE:
            self.carried = record[1:]
        elif head in NOTES:
            self.note(head, record)
        else:
            self.counts.features.add({SIGNAL: "signal", SIGRETURN: "sigreturn"}[head])

    def note(self, head, record):
        """NOTES: numbers rise, and what is referred to is defined."""
        fresh = head == 12 and record[2:] == [0, WORD]
        demand(record[1] == 0 if fresh else record[1] >= self.note_number, "the numbers of notes do not rise")
        self.note_number = record[1] + 1
        text = record[TEXT_OF[head]] if head in TEXT_OF else NO_TEXT
        demand(text == NO_TEXT or text in self.defined["texts"], "a note's text is not defined")
        demand(head not in HOOK_OF or record[HOOK_OF[head]] in self.defined["hooks"], "a note's hook is not defined")
        if head == 24:
            demand(record[2] <= record[3] and 1 <= record[4] <= 3, "an impossible gap")
            self.gaps += 1
        self.counts.features.add(NOTES[head][0])

    def finish(self):
        """The last record is taken as it is."""
        if self.held:
            held, self.held = self.held, None
            self.execute(held, None)

    def execute(self, record, cut):
        block = self.table[record[0]]
        way_out, steady = block.meaning(record[0])
        partial = cut or way_out
        if cut:
            self.counts.features.add("cut")
            demand(not way_out, "a CUT behind a way out")
            demand(cut.instruction < len(block.pcs), "a CUT behind the block")
        if way_out:
            self.counts.features.add("left")
            if way_out.words < block.words:
                self.counts.features.add("left with fewer words")
            if steady:
                self.counts.features.add("left in a later iteration")
        if block.pieces:
            self.counts.features.add("pieces")
        # 1. Load
        if not steady:
            missing = block.words - len(record)
            self.slots = self.carried + record[1:] + [0] * (missing + len(block.derived))
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
        whole = 0 if partial else 1
        if block.counter:
            whole = self.iterations(block.counter, self.slots[exit_slot], bool(partial))
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
            self.counts.instructions += len(block.pcs)
        # 5. The last, partial one
        if partial:
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
        self.loop = block if block.free is not None and not partial else None

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

    def hash_in(self, pc, kind, address, size):
        """INDEX, END, FOOTER: verify."""
        word = address * 0xBF58476D1CE4E5B9 + pc * 0x94D049BB133111EB + (4 * size + kind) * 0xD6E8FEB86659FD93
        rotated = (self.hash << 5 | self.hash >> 59) & WORD
        self.hash = (rotated ^ word & WORD) * 0x9E3779B97F4A7C15 & WORD

    def make(self, block, instruction, shape, accesses):
        pc = block.pcs[instruction]
        for kind, address, size in accesses:
            self.counts.features.add(type(shape).__name__)
            self.made += 1
            self.hash_in(pc, kind, address, size)
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
        self.table = {}  # by id, of which a block may have several
        self.counts = Counts()
        self.threads, self.processes, self.known_threads, self.execs = {}, set(), set(), set()
        self.defined = {"texts": set(), "hooks": set()}
        self.code = Code()
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
        for block in BlocksDecoder(chunk, self.code).blocks():
            self.counts.features.add(block.feature)
            for id in range(block.id, block.id + block.ids()):
                demand(id not in self.table, f"block {id} is defined twice")
                self.table[id] = block

    def events(self, chunk):
        for event in decode_events(chunk):
            if event["event"] == MODULE:
                self.code.modules += 1
                self.counts.features.add("generated code" if event["generated"] else "module")
            if event["event"] == IMAGE:
                demand(event["module"] < self.code.modules, "an image of a module that is not known")
                self.code.images.append((event["module"], event["base"]))
            if event["event"] == THREAD:
                self.known_threads.add(event["serial"])
            if event["event"] == PROCESS:
                if event["how"] == EXEC:
                    self.execs.add(event["serial"])
                self.processes.add(event["serial"])
            if event["event"] == TEXT:
                self.defined["texts"].add(event["id"])
            if event["event"] == HOOK:
                demand(event["text"] in self.defined["texts"], "a hook's text is not defined")
                self.defined["hooks"].add(event["id"])

    def stream(self, chunk):
        head, serial = chunk.head, chunk.head["thread"]
        demand(serial in self.known_threads, f"thread {serial} was not introduced")
        state, stamps, records = decode_stream(chunk, self.table, self.counts.features)
        thread = self.threads.get(serial)
        if thread is None:
            lines = self.lines.setdefault(serial, [])
            wanted = self.keep and self.wanted in (None, serial)
            out = lines.append if wanted else None
            thread = Thread(serial, self.table, self.xsave, self.counts, out, self.defined)
            self.threads[serial] = thread
        # What a reader that begins here would go on from.
        demand(state == thread.state(), "the state is not that of the reader")
        demand(head["first"] == thread.made, "accesses before this chunk are missing")
        before = thread.made
        words = 0
        for record in records:
            words += len(record)
            demand(words <= head["words"], "more words than the head says")
            thread.record(record)
        demand(words == head["words"], "fewer words than the head says")
        demand(thread.made - before == head["accesses"], "another number of accesses than the head says")
        demand(thread.time <= head["begin"] <= head["end"], "a chunk before its thread's chunk before")
        thread.time = head["end"]
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
        gaps = sum(thread.gaps for thread in self.threads.values())
        demand(gaps == self.file.totals.get("gaps", 0), f"{gaps} gaps, but the totals say another number")
        if "verify" in self.file.totals:
            self.counts.features.add("verify")
            made = {t.serial: (t.made, t.hash) for t in self.threads.values() if t.made}
            said = {v["thread"]: (v["accesses"], int(v["hash"], 16)) for v in self.file.totals["verify"]}
            demand(made == said, "the accesses are not those that were recorded")


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

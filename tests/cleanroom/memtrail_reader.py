#!/usr/bin/python3
"""A reader of memtrail recordings, version 7, written from trace-format.md alone.

    memtrail_reader.py FILE [--thread T]

prints every access as `thread pc kind address size`, and checks all that the page lets a reader check.
Sections are named after the headings of the page. Exit status: 0 all is well, 1 contradiction or damage
(what stands before it is printed), 2 the file is cut off (the prefix is printed).
"""
import argparse
import json
import sys
import zlib

from mtr_container import (BLOCKS, END, EVENTS, INDEX, LOW, MASK, STREAM, Chunk, CutOff, Damage, need,
                           read_prologue, unpack_columns)
from mtr_plans import RSP, Blocks, Cut
from mtr_stream import CUT, NOTES, STATE, Stream

# --------------------------------------------------------------------------------------------------- EVENTS


class Events:
    """Processes, threads and the rest: only what can be checked is kept."""

    def __init__(self):
        self.processes, self.threads, self.modules, self.log = {}, {}, [], []
        self.images = []
        self.texts, self.hooks = {}, {}

    def add(self, chunk):
        (column,) = unpack_columns(chunk, ["events"])
        self.likely_address = self.likely_time = 0
        while column.left():
            self.event(column, chunk)

    def time(self, column):
        self.likely_time = self.likely_time + column.signed() & MASK
        return self.likely_time

    def range(self, column):
        start = self.likely_address + column.signed() & MASK
        length = column.number()
        self.likely_address = start + length & MASK
        return start, length

    def event(self, column, chunk):
        what = column.byte()
        need(1 <= what <= 11, f"{chunk.name}: unknown event {what}")
        process = column.number()
        if what == 1:
            serial, parent, pid, how = (column.number() for _ in range(4))
            need(how < 3, f"{chunk.name}: PROCESS: how is {how}")
            need(parent == 0 or parent - 1 in self.processes, f"{chunk.name}: PROCESS: unknown parent")
            self.processes[serial] = pid
            event = "PROCESS", process, serial, parent - 1, pid, how
        elif what == 2:
            serial, tid, time = column.number(), column.number(), self.time(column)
            need(serial not in self.threads or self.threads[serial][1] == tid, f"{chunk.name}: THREAD: serial is reused")
            self.threads[serial] = process, tid
            event = "THREAD", process, serial, tid, time
        elif what == 3:
            serial, status, time = column.number(), column.number(), self.time(column)
            # (record --no-follow tells the end of a vfork child that no THREAD introduced: nothing to check here)
            event = "THREAD END", process, serial, status, time
        elif what == 4:
            where, offset, protection, path = self.range(column), column.number(), column.number(), column.text()
            event = "MAP", process, where, offset, protection, path
        elif what == 5:
            event = "UNMAP", process, self.range(column)
        elif what == 6:
            event = "EXIT", process, column.number()
        elif what == 7:
            event = "WARN", process, column.text()
        elif what == 9:
            number, text = column.number(), column.text()
            need(number not in self.texts, f"{chunk.name}: TEXT {number} is defined twice")
            self.texts[number] = text
            event = "TEXT", process, number, text
        elif what == 10:
            number, kind, named = column.number(), column.number(), column.number()
            self.likely_address = self.likely_address + column.signed() & MASK
            text = column.number()
            need(1 <= kind <= 3 and named <= 1, f"{chunk.name}: HOOK of unknown kind")
            need(number not in self.hooks, f"{chunk.name}: HOOK {number} is defined twice")
            need(text in self.texts, f"{chunk.name}: HOOK before its TEXT")
            self.hooks[number] = kind, named, self.likely_address, text
            event = "HOOK", process, number, *self.hooks[number]
        elif what == 11:
            module = column.number()
            self.likely_address = self.likely_address + column.signed() & MASK
            need(module < len(self.modules), f"{chunk.name}: IMAGE of unknown module {module}")
            self.images.append((module, self.likely_address))
            event = "IMAGE", process, module, self.likely_address
        else:
            path, build = column.text(), column.number()
            build_id, generated = column.take(build - 1) if build else None, column.number()
            need(generated < 2, f"{chunk.name}: MODULE of unknown kind")
            self.modules.append(path)
            event = "MODULE", process, path, build_id, generated
        need(process in self.processes, f"{chunk.name}: event of unknown process {process}: {event}")
        self.log.append(event)


# --------------------------------------------------------------------------------- From records to accesses


class Totals:
    def __init__(self):
        self.kinds, self.bytes, self.instructions, self.blocks = [0, 0, 0], 0, 0, 0


class Thread:
    """Takes a thread's records, one after the other, and makes its accesses."""

    def __init__(self, serial, blocks, header, totals, out, hashing, events):
        self.events, self.number = events, 0  # what notes refer to, and the least number of the next
        self.serial, self.blocks, self.header, self.totals = serial, blocks, header, totals
        self.out, self.hashing = out, hashing
        self.carried = [0, 0, 0]
        self.held = None  # the last record, if it is a block's and its accesses were not made yet
        self.loop, self.slots = None, []  # the partly affine loop that may go on, and what its iteration left
        self.has_state = False  # a STATE was there since the beginning, or since a CUT
        self.made = self.hash = 0
        self.most = 1 << 64  # accesses that the chunk's head allows
        self.before = None  # the chunk before

    def state(self):
        values = self.slots[3:3 + self.loop.values] if self.loop else []
        return [*self.carried, self.loop.id + 1 if self.loop else 0, values, list(self.held or ())]

    def chunk(self, chunk):
        name, before = chunk.name, self.before
        need(chunk.end >= chunk.begin, f"{name}: its end is before its begin")
        need(before is None or chunk.begin >= before.end, f"{name}: begins before the chunk before ends")
        need(chunk.first == self.made, f"{name}: first is {chunk.first} instead of {self.made}")
        stream = Stream(chunk, self.blocks)
        need(stream.state == self.state(), f"{name}: state is {stream.state} instead of {self.state()}")
        words, self.most = 0, chunk.first + chunk.accesses
        for record in stream.records():
            words += len(record)
            need(words <= chunk.words, f"{name}: more words than its head says")
            try:
                self.record(record, chunk)
            except Damage as error:
                raise Damage(f"{name}: {error}") from error
        need(words == chunk.words, f"{name}: {words} words, its head says {chunk.words}")
        made = self.made - chunk.first
        need(made == chunk.accesses, f"{name}: {made} accesses, its head says {chunk.accesses}")
        self.before = chunk

    def finish(self):
        """The last record of all; its accesses count to no chunk."""
        self.most = 1 << 64
        if self.held:
            self.execute()

    def record(self, record, chunk):
        head = record[0]
        if head == CUT:
            need(self.held, "CUT without a block")
            self.execute(cut=Cut(*record[1:]))
            self.has_state = False
        else:
            if self.held:
                self.execute()
            if head == STATE:
                self.carried, self.has_state = list(record[1:]), True
            elif head >= 64:
                need(self.has_state, "a block without a STATE before it")
                self.held = record
            elif head in NOTES:
                self.note(*record)

    def note(self, head, number, *words):
        if head == 12 and words == (0, MASK):
            need(number == 0, "a new image whose first note is not number 0")
            self.number = 0
        need(number >= self.number, "the numbers of notes do not rise")
        self.number = number + 1
        if head in (8, 9, 10):
            need(words[0] in self.events.hooks, f"a note of hook {words[0]}, which is not defined")
        elif head in (11, 15, 16, 17):
            text = words[{11: 3, 15: 2, 16: 0, 17: 0}[head]]
            need(text == LOW or text in self.events.texts, f"a note with text {text}, which is not defined")
        elif head == 24:
            need(words[0] <= words[1] and 1 <= words[2] <= 3, "an impossible gap")
            self.has_state = False

    def execute(self, cut=None):
        record, self.held = self.held, None
        plan, left, later = self.blocks.by_head[record[0]]
        need(cut is None or left is None, f"CUT of block {plan.id}, which was left through a way out")
        # 1. Load
        if later:
            need(self.loop is plan, f"a later iteration of loop {plan.id}, which does not go on")
            slots = self.slots
            slots[:3] = self.carried
            for slot, value in zip(plan.free, record[1:]):
                slots[slot] = value
        else:
            missing = plan.words - len(record)
            slots = [*self.carried, *record[1:], *[0] * (missing + len(plan.derived))]
        # 2. Adjust
        rsp = None
        if left is not None:
            rsp = plan.ways[left].rsp
            if plan.affine:
                slots[2 + plan.values] = slots[2 + plan.values] - plan.ways[left].moved & (LOW if plan.counter.low32 else MASK)
        # 3. Count
        partial = cut is not None or left is not None
        count = self.count(plan, slots, partial) if plan.affine else int(not partial)
        # 4. Whole iterations
        need(count * max(len(plan.accesses), 1) <= 1 << 48, "more than 2^48 accesses")
        for _ in range(count):
            plan.derive(slots)
            for _, pc, shape in plan.accesses:
                self.access(pc, shape.make(slots, self.header, None))
            exit_rsp = plan.exit_rsp.of(slots)
            for step in plan.steps:
                step.take(slots)
            slots[RSP] = exit_rsp
        self.totals.blocks += count + partial
        self.totals.instructions += count * plan.instructions
        # 5. The last, partial one
        if partial:
            k = cut.k if cut else left
            need(k < plan.instructions, f"block {plan.id} has no instruction {k}")
            self.totals.instructions += k + (cut is None)
            plan.derive(slots)
            for number, pc, shape in plan.accesses:
                if number < k or number == k and cut is None:
                    self.access(pc, shape.make(slots, self.header, None))
                elif number == k:
                    self.access(pc, shape.make(slots, self.header, cut))
        # 6. Carry
        if not partial:
            self.carried[RSP] = slots[RSP]
        elif cut is None:
            self.carried[RSP] = rsp.of(slots)
        self.loop, self.slots = (plan, slots) if plan.partly and not partial else (None, [])

    def count(self, plan, slots, partial):
        counter = plan.counter
        by, entry, leave = counter.by, slots[counter.slot], slots[2 + plan.values]
        distance = (leave - entry if by > 0 else entry - leave) & (LOW if counter.low32 else MASK)
        count = distance // abs(by)
        if count == 0 and not partial:
            need(counter.low32, f"affine loop {plan.id} without an iteration")
            need(abs(by) & abs(by) - 1 == 0, f"affine loop {plan.id}: went around, but by is no power of two")
            count = (1 << 32) // abs(by)
        return count

    def access(self, pc, made):
        for kind, address, size in made:
            self.made += 1
            need(self.made <= self.most, "more accesses than its head says")
            self.totals.kinds[kind] += 1
            if kind != 2:
                self.totals.bytes += size
            if self.hashing:
                w = address * 0xbf58476d1ce4e5b9 + pc * 0x94d049bb133111eb + (4 * size + kind) * 0xd6e8feb86659fd93
                h = self.hash
                h = (h << 5 | h >> 59) & MASK
                self.hash = (h ^ w & MASK) * 0x9e3779b97f4a7c15 & MASK
            if self.out:
                self.out.write(f"{self.serial} {pc:#x} {'RWP'[kind]} {address:#x} {size}\n")


# --------------------------------------------------------------------------------------- INDEX, END, footer

INDEX_COLUMNS = "kind stored raw thread process first accesses begin end words".split()


def check_index(index, chunks):
    columns = unpack_columns(index, INDEX_COLUMNS)
    before = {}
    for chunk in chunks:
        fields = [column.number() for column in columns[:3]]
        need(fields == [chunk.kind, chunk.stored, chunk.raw], f"{chunk.name}: INDEX says {fields}")
        if chunk.kind != STREAM:
            continue
        thread, process = columns[3].number(), columns[4].number()
        first, end = before.get(thread, (0, 0))
        first = first + columns[5].signed() & MASK
        accesses = columns[6].number()
        begin = end + columns[7].signed() & MASK
        end = begin + columns[8].signed() & MASK
        fields = [thread, process, first, accesses, begin, end, columns[9].number()]
        head = [chunk.thread, chunk.process, chunk.first, chunk.accesses, chunk.begin, chunk.end, chunk.words]
        need(fields == head, f"{chunk.name}: INDEX says {fields}, its head {head}")
        before[thread] = first + accesses, end
    for column in columns:
        column.finish()


def check_totals(end, totals, threads, events, chunks):
    streams = [chunk for chunk in chunks if chunk.kind == STREAM]
    reads, writes, prefetches = totals.kinds
    found = {
        "accesses": sum(totals.kinds), "reads": reads, "writes": writes, "prefetches": prefetches, "bytes": totals.bytes,
        "instructions": totals.instructions, "blocks": totals.blocks, "threads": len(events.threads),
        "processes": len(events.processes), "ring_words": sum(chunk.words for chunk in streams),
    }
    for name, value in found.items():
        need(end.get(name) == value, f"END says {name} {end.get(name)}, but they are {value}")
    if "verify" in end:
        said = {entry["thread"]: (entry["accesses"], int(entry["hash"], 16)) for entry in end["verify"]}
        need(len(said) == len(end["verify"]), "END: a thread is twice in verify")
        made = {thread.serial: (thread.made, thread.hash) for thread in threads if thread.made}
        need(said == made, f"END: verify is {said} instead of {made}")


def read_container(data, start):
    """The chunks before INDEX, INDEX and END as far as they are there, and what is wrong with the file, if anything."""
    chunks, index, end, offset = [], None, None, start
    try:
        while end is None:
            chunk = Chunk(data, offset, len(chunks) + (index is not None))
            offset = chunk.after
            need((chunk.kind == END) == (index is not None), f"{chunk.name}: is not in its place")
            if chunk.kind == INDEX:
                index = chunk
            elif chunk.kind == END:
                end = chunk
            else:
                chunks.append(chunk)
        footer = data[offset:]
        if len(footer) < 16:
            raise CutOff("cut off within the footer")
        need(len(footer) == 16 and footer[12:] == b"MTRE", "footer is damaged")
        need(zlib.crc32(footer[:8]) == int.from_bytes(footer[8:12], "little"), "CRC of the footer is wrong")
        need(int.from_bytes(footer[:8], "little") == index.offset, "footer does not point to INDEX")
        check_index(index, chunks)
    except (CutOff, Damage) as error:
        return chunks, None, error
    try:
        return chunks, json.loads(end.payload), None
    except ValueError as error:
        return chunks, None, Damage(f"END: {error}")


# ------------------------------------------------------------ Reading a file that is cut off or damaged; main


def read(data, only, out):
    """Prints the accesses; gives what is wrong with the file, or None."""
    header, start = read_prologue(data)
    chunks, end, problem = read_container(data, start)
    blocks, events, streams = Blocks(), Events(), {}
    try:
        for chunk in chunks:
            if chunk.kind == BLOCKS:
                blocks.add(chunk, events.images)
            elif chunk.kind == EVENTS:
                events.add(chunk)
            else:
                need(chunk.thread in events.threads, f"{chunk.name}: of unknown thread {chunk.thread}")
                need(chunk.process in events.processes, f"{chunk.name}: of unknown process {chunk.process}")
                streams.setdefault(chunk.thread, []).append(chunk)
    except Damage as error:
        problem = problem or error
    totals, threads = Totals(), []
    for serial in sorted(streams):
        show = out if only in (None, serial) else None
        thread = Thread(serial, blocks, header, totals, show, end is not None and "verify" in end, events)
        threads.append(thread)
        try:
            for chunk in streams[serial]:
                thread.chunk(chunk)
            if end is not None:  # in a file that is not complete nobody knows whether the last record was cut or left
                thread.finish()
        except Damage as error:
            problem = problem or Damage(f"thread {serial}: {error}")
    if problem is None and end is not None:
        check_totals(end, totals, threads, events, chunks)
    return problem


def main():
    parser = argparse.ArgumentParser(description="prints and checks a memtrail recording")
    parser.add_argument("file")
    parser.add_argument("--thread", type=int)
    args = parser.parse_args()
    with open(args.file, "rb") as file:
        data = file.read()
    try:
        problem = read(data, args.thread, sys.stdout)
    except (Damage, CutOff) as error:
        problem = error
    sys.stdout.flush()
    if problem is not None:
        print(f"memtrail_reader: {args.file}: {problem}", file=sys.stderr)
        return 2 if isinstance(problem, CutOff) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

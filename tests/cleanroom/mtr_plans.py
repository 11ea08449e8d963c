"""Plans, and BLOCKS, in which they are stored (trace-format.md)."""
from mtr_container import LOW, MASK, Damage, need, signed, unpack_columns, unzigzag

# ---------------------------------------------------------------------------------------------------- Plans

RSP, FS, GS = 0, 1, 2


class Lin:
    """c + k1*slot1 + ..."""

    __slots__ = ("c", "terms")

    def __init__(self, c, *terms):
        self.c, self.terms = c, terms

    def of(self, slots):
        value = self.c
        for slot, scale in self.terms:
            value += scale * slots[slot]
        return value & MASK

    def slots(self):
        return [slot for slot, _ in self.terms]


class Addr:
    __slots__ = ("lin", "low32", "segment")

    def __init__(self, lin, low32=False, segment=None):
        self.lin, self.low32, self.segment = lin, low32, segment

    def of(self, slots, offset=0):
        value = self.lin.of(slots) + offset
        if self.low32:
            value &= LOW
        if self.segment is not None:
            value += slots[self.segment]
        return value & MASK

    def slots(self):
        return self.lin.slots() + ([] if self.segment is None else [self.segment])


def element(slots, first, index, size):
    """Element `index`, of `size` bytes, of the vector that begins in slot `first`: unsigned."""
    slot, byte = divmod(index * size, 8)
    return slots[first + slot] >> 8 * byte & (1 << 8 * size) - 1


def vector_slots(first, lanes, size):
    return range(first, first + (lanes * size + 7) // 8)


class Mask:
    def __init__(self, form, slot, size):
        self.form, self.slot, self.size = form, slot, size

    def active(self, lanes, slots):
        if self.form == 0:
            return range(lanes)
        if self.form == 1:
            return [i for i in range(lanes) if slots[self.slot] >> i & 1]
        return [i for i in range(lanes) if element(slots, self.slot, i, self.size) >> 8 * self.size - 1]

    def slots(self, lanes):
        return [[], [self.slot], vector_slots(self.slot, lanes, self.size)][self.form]


class Cut:
    """What a CUT says about the instruction that was executing."""

    def __init__(self, k, rcx, rsi, rdi, lanes):
        self.k, self.rcx, self.rsi, self.rdi, self.lanes = k, rcx, rsi, rdi, lanes


class Shape:
    """An access of an instruction. make() yields (kind, address, size); with a Cut only what was done then."""

    def __init__(self, kind):
        self.kind = kind

    def make(self, slots, header, cut):
        if cut is not None:
            return []
        return self.whole(slots, header)


class Plain(Shape):
    def __init__(self, kind, addr, size):
        super().__init__(kind)
        self.addr, self.size, self.used = addr, size, addr.slots()

    def whole(self, slots, header):
        return ((self.kind, self.addr.of(slots), self.size),)


class Line(Plain):
    def __init__(self, kind, addr, size):
        super().__init__(kind, addr, size)
        need(size & size - 1 == 0 and size, "line: size is no power of two")

    def whole(self, slots, header):
        return ((self.kind, self.addr.of(slots) & -self.size, self.size),)


class Repeat(Shape):
    def __init__(self, kind, flags, source, target, size, before, after, pointer, moved):
        super().__init__(kind)
        self.low32, self.is_rsi = flags & 1, flags & 2
        self.source, self.target, self.target_kind = source, target, (flags >> 3) - 1
        self.size, self.before, self.after, self.pointer, self.moved = size, before, after, pointer, moved
        self.used = [*before.slots(), *pointer.slots(), after, moved]
        for addr in (source, target):
            self.used += addr.slots() if addr else []

    def make(self, slots, header, cut):
        after = slots[self.after] if cut is None else cut.rcx
        moved = slots[self.moved] if cut is None else cut.rsi if self.is_rsi else cut.rdi
        pointer = self.pointer.of(slots)
        n = (self.before.of(slots) - after) & MASK
        if self.low32:
            n, moved, pointer = n & LOW, moved & LOW, pointer & LOW
        need(n <= 1 << 48, "repeat: more than 2^48 elements")
        d = -self.size if moved < pointer else self.size
        for i in range(n):
            if self.source:
                yield 0, self.source.of(slots, i * d), self.size
            if self.target:
                yield self.target_kind, self.target.of(slots, i * d), self.size


class Lanes(Shape):
    def __init__(self, kind, addr, index, index_bytes, scale, lanes, mask, size):
        super().__init__(kind)
        self.addr, self.index, self.index_bytes, self.scale = addr, index, index_bytes, scale
        self.lanes, self.mask, self.size = lanes, mask, size
        need(index_bytes in (1, 2, 4, 8), "lanes: size of an index")
        self.used = [*addr.slots(), *vector_slots(index, lanes, index_bytes), *mask.slots(lanes)]

    def make(self, slots, header, cut):
        for i in self.mask.active(self.lanes, slots):
            if cut is None or cut.lanes >> i & 1:
                index = signed(element(slots, self.index, i, self.index_bytes), 8 * self.index_bytes)
                yield self.kind, self.addr.of(slots, index * self.scale), self.size


class Masked(Shape):
    """elements (3), broadcast (4), packed (5)"""

    def __init__(self, kind, form, addr, lanes, mask, size):
        super().__init__(kind)
        self.form, self.addr, self.lanes, self.mask, self.size = form, addr, lanes, mask, size
        self.used = [*addr.slots(), *mask.slots(lanes)]

    def whole(self, slots, header):
        active = self.mask.active(self.lanes, slots)
        if self.form == 4:
            active = [0] if len(active) else []
        elif self.form == 5:
            active = range(len(active))
        return [(self.kind, self.addr.of(slots, i * self.size), self.size) for i in active]


class BitWord(Shape):
    def __init__(self, kind, addr, bit, size):
        super().__init__(kind)
        self.addr, self.bit, self.size, self.used = addr, bit, size, addr.slots() + bit.slots()

    def whole(self, slots, header):
        bits = 8 * self.size
        offset = signed(self.bit.of(slots), bits) // bits * self.size
        return ((self.kind, self.addr.of(slots, offset), self.size),)


class Xstate(Shape):
    def __init__(self, kind, addr, low, high, layout):
        super().__init__(kind)
        self.addr, self.low, self.high, self.layout = addr, low, high, layout
        self.used = addr.slots() + low.slots() + high.slots() + ([layout - 2] if layout >= 2 else [])

    def whole(self, slots, header):
        asked = header["xcr0"] & (self.low.of(slots) & LOW | self.high.of(slots) << 32)
        compact, present = self.layout == 1, asked
        if self.layout >= 2:
            present = slots[self.layout - 2]
            compact = present >> 63
        extent = at = 576
        for index, size, offset, aligned in header["xsave"]:
            if compact:
                if not present >> index & 1:
                    continue
                offset = (at + 63 & -64) if aligned else at
                at = offset + size
            if asked >> index & 1:
                extent = max(extent, offset + size)
        return ((self.kind, self.addr.of(slots), extent),)


class Step:
    def __init__(self, low32, slot, by, plus, anew):
        self.low32, self.slot, self.by, self.plus, self.anew = low32, slot, by, plus, anew

    def take(self, slots):
        value = self.by + (0 if self.anew else slots[self.slot])
        if self.plus:
            value += self.plus[1] * slots[self.plus[0]]
        slots[self.slot] = value & (LOW if self.low32 else MASK)

    def slots(self):
        return [self.slot] + ([self.plus[0]] if self.plus else [])


class Way:
    """A way out: its rsp, how far a counter has moved, and the words of a record that ends there."""

    def __init__(self, rsp, moved, words):
        self.rsp, self.moved, self.words = rsp, moved, words


class Plan:
    """What a block does. accesses: (number of the instruction, its address, Shape); ways: {k: Way}."""

    affine = partly = False
    counter = None

    def __init__(self):
        self.derived, self.accesses, self.ways, self.steps, self.free = [], [], {}, [], []
        self.instructions = 0

    def derive(self, slots):
        at = 3 + self.values
        for start, bits, sign, lin in self.derived:
            value = (lin.of(slots) & MASK) >> start & (1 << bits) - 1
            slots[at] = signed(value, bits) & MASK if sign else value
            at += 1

    def check(self):
        """Limits."""
        slots, carried = 3 + self.values + len(self.derived), 3 + self.values
        need(slots < 65535 and self.instructions < 65535 and len(self.accesses) < 65535, "too large")
        need(self.words <= 512, "more than 512 words")
        for number, (*_, lin) in enumerate(self.derived):
            need(all(slot < carried + number for slot in lin.slots()), "derived value refers to a slot behind it")
        lins = [self.exit_rsp, *(way.rsp for way in self.ways.values())]
        used = [slot for lin in lins for slot in lin.slots()]
        for _, _, shape in self.accesses:
            used += shape.used
            if self.affine:
                need(2 + self.values not in shape.used, "a shape refers to the counter's last value")
        need(all(slot < slots for slot in used), "refers to a slot that does not exist")
        stepped = [slot for step in self.steps for slot in step.slots()] + self.free
        if self.affine:
            stepped += self.counter.slots()
            need(self.values >= 1, "affine loop without value words")
            need(self.counter.by != 0, "counter does not count")
            need(not any(step.anew for step in [*self.steps, self.counter]), "affine loop with a step anew")
        need(all(slot < carried for slot in stepped), "step or free slot is that of a derived value")
        need(self.instructions - 1 not in self.ways, "the last instruction is a way out")
        need(len(self.ways) <= 254, "more than 254 ways out")
        need(all(way.words <= self.words for way in self.ways.values()), "a way out with more words than the block")

    def ids(self):
        """For each of its ids the way out, if any, and whether it is that of a later iteration."""
        each = [None, *self.ways]
        return [(left, later) for later in range(1 + self.partly) for left in each]


# --------------------------------------------------------------------------------------------------- BLOCKS

COLUMNS = "flags id pc jump words source instruction access stack rsp slot offset address rare image code".split()


class BlockReader:
    def __init__(self, chunk, images, known):
        self.images, self.known, self.likely_image = images, known, 0
        columns = unpack_columns(chunk, COLUMNS)
        self.columns = columns
        (self.flags, self.id, self.pc, self.jump, self.words, self.source, self.instruction, self.access, self.stack,
         self.rsp, self.slot, self.offset, self.address, self.rare, self.image, self.code) = columns
        self.likely_id, self.likely_pc, self.likely_address, self.ends = 64, 0, 0, []

    def read(self):
        while self.flags.left():
            yield self.block()
        for column in self.columns:
            column.finish()

    def block(self):
        plan = Plan()
        self.likely_rsp, self.likely_slot = 0, 3
        flags = self.flags.byte()
        need(flags < 64 and flags & 6 != 6 and (flags & 16 or not flags & 32), "BLOCKS: unknown flags")
        plan.affine, plan.partly = flags & 2 != 0, flags & 4 != 0
        plan.id = self.likely_id + self.id.signed()
        end = self.pc.number()
        if end:
            need(end <= len(self.ends), "BLOCKS: no such end")
            plan.pc = self.ends.pop(-end)
        else:
            plan.pc = self.likely_pc + self.jump.signed() & MASK
        plan.words = self.words.number()
        need(plan.words <= 512, "BLOCKS: more than 512 words")
        plan.values = max(plan.words - 1, 0)
        plan.sources = list(self.source.take(plan.values))
        need(all(source <= 16 for source in plan.sources), "BLOCKS: unknown source")
        if flags & 1:
            for _ in range(self.count()):
                start, bits = self.rare.byte(), self.rare.byte()
                sign, bits = bits >> 7, bits & 127
                need(0 < bits < 64 and start + bits <= 64, "BLOCKS: no such bits")
                plan.derived.append((start, bits, sign, self.lin()))
        pieces = {}
        if flags & 8:
            first = 0
            for _ in range(self.rare.byte()):
                head = self.rare.number()
                need(head & 3 < 3, "BLOCKS: unknown way to a piece")
                need(head >> 2 > 0, "BLOCKS: a piece without instructions")
                first += head >> 2
                pieces[first] = self.rare.signed()
        plan.end = self.instructions(plan, pieces)
        need(not pieces or max(pieces) < plan.instructions, "BLOCKS: a piece behind the last instruction")
        self.code_of(plan, flags)
        plan.exit_rsp = self.stack_pointer()
        if plan.affine or plan.partly:
            plan.steps = [self.step() for _ in range(self.count())]
        if plan.affine:
            plan.counter = self.step()
        if plan.partly:
            plan.free = [self.slot_number() for _ in range(self.count())]
        try:
            plan.check()
        except Damage as error:
            raise Damage(f"BLOCKS: block {plan.id}: {error}") from error
        self.likely_id = plan.id + len(plan.ids())
        self.likely_pc = plan.end
        self.ends.append(self.likely_pc)
        if len(self.ends) == 33:
            self.ends.pop(0)
        return plan

    def code_of(self, plan, flags):
        """Where each piece comes from, and its bytes."""
        plan.code = b""
        for pc, length, longest in plan.stretches:
            self.likely_image += self.image.signed()
            need(0 <= self.likely_image <= len(self.images), f"BLOCKS: unknown image {self.likely_image}")
            if not flags & 16:
                continue
            need(longest <= 15, "BLOCKS: code of an instruction that is too long")
            if self.likely_image:
                module, base = self.images[self.likely_image - 1]
                pc = min(module + 1, 0xFFFD) * 2**48 + (pc - base) % 2**48
            for at in range(length):
                place = pc + at & MASK
                if flags & 32 or place not in self.known:
                    self.known[place] = self.code.take(1)
                plan.code += self.known[place]

    def instructions(self, plan, pieces):
        at, pc, words = 0, plan.pc, 1
        plan.stretches = []
        while True:
            byte = self.instruction.byte()
            number, last = plan.instructions, byte & 0x80
            pc = pc + pieces.get(number, 0) & MASK
            length = byte & 15 or self.rare.number()
            if number == 0 or number in pieces:
                plan.stretches.append([pc, 0, 0])
            plan.stretches[-1][1] += length
            plan.stretches[-1][2] = max(plan.stretches[-1][2], length)
            count = byte >> 5 & 3
            if count == 3:
                count = self.rare.number()
            need(at < 1 << 16, "BLOCKS: instruction too far behind the block's address")
            for _ in range(count):
                plan.accesses.append((number, pc, self.one_access(length, last or number + 1 in pieces)))
            if byte & 0x10:
                rsp, moved = self.stack_pointer(), self.rare.signed() if plan.affine else 0
                if plan.affine or plan.partly:
                    words = plan.words
                else:
                    words += self.words.number()
                plan.ways[number] = Way(rsp, moved, words)
            at += length
            pc = pc + length & MASK
            plan.instructions += 1
            if last:
                return pc

    def one_access(self, length, last):
        byte = self.access.byte()
        kind, size, form = byte & 3, 1 << (byte >> 2 & 7), byte >> 5
        need(kind < 3, "BLOCKS: unknown kind of access")
        if form == 0:
            c = self.likely_rsp + self.stack.signed()
            if length <= 2 or last:
                self.likely_rsp = c + size if kind == 0 else c
            return Plain(kind, Addr(Lin(c, (RSP, 1))), size)
        if form == 1:
            slot = self.next_slot()
            return Plain(kind, Addr(Lin(self.offset.signed(), (slot, 1))), size)
        if form == 2:
            self.likely_address = self.likely_address + self.address.signed() & MASK
            return Plain(kind, Addr(Lin(self.likely_address)), size)
        if form == 3:
            one, two = self.next_slot(), self.next_slot()
            scale = self.rare.signed()
            return Plain(kind, Addr(Lin(self.offset.signed(), (one, 1), (two, scale))), size)
        if form == 4:
            return Plain(kind, Addr(Lin(self.offset.signed()), segment=FS), size)
        need(form == 7 and size == 1, "BLOCKS: unknown form of access")
        return self.shape(kind)

    def next_slot(self):
        slot = self.likely_slot - self.slot.signed()
        need(0 <= slot < 1 << 16, "BLOCKS: slot out of range")
        self.likely_slot = max(self.likely_slot, slot + 1)
        return slot

    def stack_pointer(self):
        n = self.rsp.number()
        if n == 0:
            return self.lin()
        self.likely_rsp += unzigzag(n - 1)
        return Lin(self.likely_rsp, (RSP, 1))

    # What is in the column `rare`.

    def count(self):
        count = self.rare.number()
        need(count < 1 << 16, "BLOCKS: count out of range")
        return count

    def slot_number(self):
        slot = self.rare.number()
        need(slot < 1 << 16, "BLOCKS: slot out of range")
        return slot

    def scale(self):
        scale = self.rare.signed()
        need(-1 << 31 <= scale < 1 << 31, "BLOCKS: scale out of range")
        return scale

    def lin(self):
        n = self.rare.byte()
        need(n <= 3, "BLOCKS: lin of more than three terms")
        terms = [(self.slot_number(), self.scale()) for _ in range(n)]
        return Lin(self.rare.signed(), *terms)

    def step(self):
        flags = self.rare.byte()
        need(flags < 8, "BLOCKS: unknown flags of a step")
        slot, by = self.slot_number(), self.rare.signed()
        plus = (self.slot_number(), self.scale()) if flags & 2 else None
        return Step(flags & 1, slot, by, plus, flags & 4)

    def addr(self):
        head = self.rare.number()
        return Addr(self.lin(), head & 1, (head >> 1) - 1 if head >> 1 else None)

    def vector(self, sizes=(1, 2, 4, 8)):
        lanes, form = self.rare.byte(), self.rare.byte()
        need(lanes <= 64 and form < 3, "BLOCKS: unknown vector")
        slot = self.slot_number() if form else 0
        mask = Mask(form, slot, self.rare.byte() if form == 2 else 0)
        size = self.rare.byte()
        need(size in sizes and (form < 2 or mask.size in (1, 2, 4, 8)), f"BLOCKS: {lanes} lanes of {size} bytes")
        return lanes, mask, size

    def shape(self, kind):
        rare, which = self.rare, self.rare.byte()
        if which == 0:
            return Plain(kind, self.addr(), rare.number())
        if which == 1:
            flags = rare.byte()
            need(flags >> 3 <= 3, "BLOCKS: unknown flags of repeat")
            source = self.addr() if flags & 4 else None
            target = self.addr() if flags >> 3 else None
            size, before, after = rare.byte(), self.lin(), self.slot_number()
            return Repeat(kind, flags, source, target, size, before, after, self.lin(), self.slot_number())
        if which == 2:
            return Lanes(kind, self.addr(), self.slot_number(), rare.byte(), rare.byte(), *self.vector())
        if which in (3, 4, 5):
            # The page: "Vectors have at most 64 lanes, of 1, 2, 4 or 8 bytes". A masked vbroadcasti32x4 reads 16.
            addr, sizes = self.addr(), (1, 2, 4, 8, 16, 32) if which == 4 else (1, 2, 4, 8)
            return Masked(kind, which, addr, *self.vector(sizes))
        if which == 6:
            return BitWord(kind, self.addr(), self.lin(), rare.byte())
        if which == 7:
            return Line(kind, self.addr(), rare.number())
        need(which == 8, "BLOCKS: unknown shape")
        return Xstate(kind, self.addr(), self.lin(), self.lin(), rare.number())


class Blocks:
    """All blocks of the recording, by each of their ids."""

    def __init__(self):
        self.by_head, self.highest, self.count = {}, 63, 0
        self.known = {}  # bytes of code, by code address

    def add(self, chunk, images):
        for plan in BlockReader(chunk, images, self.known).read():
            most = min(self.highest + (1 << 22), 64 + (1 << 22) + 64 * self.count)
            last = plan.id + len(plan.ids()) - 1
            need(64 <= plan.id <= most and last <= (1 << 31) - 2, f"{chunk.name}: id {plan.id}")
            plan.chunk = chunk.number
            for head, (left, later) in enumerate(plan.ids(), plan.id):
                need(head not in self.by_head, f"{chunk.name}: id {head} is defined twice")
                self.by_head[head] = plan, left, later
            self.highest = max(self.highest, last)
            self.count += 1

    def get(self, head, chunk):
        """The plan, the instruction through which it was left, if any, and whether this is a later iteration."""
        need(head in self.by_head and self.by_head[head][0].chunk < chunk.number, f"{chunk.name}: block {head} is not defined")
        return self.by_head[head]

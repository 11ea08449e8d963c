"""What blocks do to memory: PLANS, and how the file has them: BLOCKS."""

from container import LOW32, WORD, demand, signed, unfold, unpack

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
    def __init__(self, slot, by, low32, plus, anew):
        self.slot, self.by, self.low32, self.plus, self.anew = slot, by, low32, plus, anew

    def take(self, slots):
        value = self.by if self.anew else slots[self.slot] + self.by
        if self.plus:
            slot, scale = self.plus
            value += scale * slots[slot]
        slots[self.slot] = value & (LOW32 if self.low32 else WORD)


class Derived:
    def __init__(self, lowest, bits, extends_sign, of):
        demand(1 <= bits <= 63 and lowest + bits <= 64, "a derived value of bits that do not exist")
        self.lowest, self.bits, self.extends_sign, self.of = lowest, bits, extends_sign, of

    def __call__(self, slots):
        value = (self.of(slots) & WORD) >> self.lowest & ((1 << self.bits) - 1)
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
    def __init__(self, instruction, rsp, moved, words):
        self.instruction, self.rsp, self.moved, self.words = instruction, rsp, moved, words


class Code:
    """BLOCKS, code: images, and the bytes of code met so far."""

    def __init__(self):
        self.modules = 0
        self.images = []  # module and base
        self.bytes = {}  # by code address

    def address(self, image, pc):
        demand(image <= len(self.images), "an image that is not known")
        if image == 0:
            return pc
        module, base = self.images[image - 1]
        return min(module + 1, 0xFFFD) << 48 | (pc - base) & (1 << 48) - 1

    def read(self, at, length, column, anew):
        """Code from a code address on; bytes that are not known stand in the column."""
        code = bytearray()
        for place in range(at, at + length):
            if anew or place & WORD not in self.bytes:
                self.bytes[place & WORD] = column.byte()
            code.append(self.bytes[place & WORD])
        return bytes(code)


class Block:
    def __init__(self, id, pc, words, sources):
        self.id, self.pc, self.words, self.sources = id, pc, words, sources
        self.derived = []
        self.pieces = {}  # where they begin: instruction -> distance from the end of the one before
        self.pcs = []  # of the instructions
        self.end = pc
        self.accesses = []  # (instruction, kind, shape)
        self.ways_out = []
        self.exit_rsp = None
        self.steps = []
        self.counter = None  # of an affine loop
        self.free = None  # of a partly affine loop
        self.lengths = []  # of the instructions
        self.images = []  # of the pieces
        self.code = None  # the bytes of the pieces, one after the other

    def ids(self):
        return (1 + len(self.ways_out)) * (1 if self.free is None else 2)

    def meaning(self, head):
        """RECORDS, ids: the way out through which it was left, and whether it is a later iteration."""
        steady, way_out = divmod(head - self.id, 1 + len(self.ways_out))
        return self.ways_out[way_out - 1] if way_out else None, bool(steady)

    def derive(self, slots):
        first = FIRST + max(self.words - 1, 0)
        for i, derived in enumerate(self.derived):
            slots[first + i] = derived(slots)


# ---------------------------------------------------------------------------------------------------------------------
# BLOCKS


class BlocksDecoder:
    def __init__(self, chunk, code):
        self.known_code = code
        self.columns = unpack(chunk, 16)
        (self.flags, self.id, self.pc, self.jump, self.words, self.source, self.instruction) = self.columns[:7]
        (self.access, self.stack, self.rsp, self.slot, self.offset, self.address, self.rare) = self.columns[7:14]
        self.image, self.code = self.columns[14:]
        self.likely_image = 0
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
        demand(flags < 64 and flags & 6 != 6 and flags & 48 != 32, "a block of unknown kind")
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
                lowest, bits = self.rare.byte(), self.rare.byte()
                block.derived.append(Derived(lowest, bits & 0x7F, bool(bits & 0x80), self.lin()))
        if flags & 8:
            self.pieces(block)
        self.instructions(block, affine=flags & 2, loop=flags & 6)
        demand(len(block.ways_out) <= 254, "too many ways out")
        demand(all(number < len(block.pcs) for number in block.pieces), "a piece behind the block")
        block.exit_rsp = self.stack_pointer()
        if flags & 6:
            block.steps = [self.step() for _ in range(self.rare.number(1 << 16))]
        if flags & 2:
            block.counter = self.step()
            demand(words >= 2 and block.counter.by, "an affine loop without a counter")
            demand(not any(step.anew for step in [*block.steps, block.counter]), "an affine loop that begins anew")
        if flags & 4:
            block.free = [self.rare.number(1 << 16) for _ in range(self.rare.number(1 << 16))]
        self.images_and_code(block, flags)
        block.feature = {0: "unknown code", 16: "code", 48: "code anew"}[flags & 48]
        self.likely_id = id + block.ids()
        self.likely_pc = block.end
        self.ends.append(self.likely_pc)
        if len(self.ends) == 33:
            self.ends.pop(0)
        return block

    def images_and_code(self, block, flags):
        firsts = [0, *block.pieces]
        for first, end in zip(firsts, [*firsts[1:], len(block.pcs)]):
            self.likely_image = (self.likely_image + self.image.signed()) & WORD
            block.images.append(self.likely_image)
            at = self.known_code.address(self.likely_image, block.pcs[first])
            if flags & 16:
                demand(max(block.lengths) <= 15, "an instruction of more than 15 bytes")
                code = self.known_code.read(at, sum(block.lengths[first:end]), self.code, flags & 32)
                block.code = (block.code or b"") + code

    def pieces(self, block):
        number = 0
        for _ in range(self.rare.byte()):
            head = self.rare.number()
            demand(head & 3 < 3, "a piece that is reached in an unknown way")
            demand(head >> 2, "two pieces at one instruction")
            number += head >> 2
            block.pieces[number] = self.rare.signed()

    def instructions(self, block, affine, loop):
        byte, words = 0, 1
        while not byte & 0x80:
            byte = self.instruction.byte()
            length = byte & 0xF or self.rare.number(1 << 16)
            count = byte >> 5 & 3
            if count == 3:
                count = self.rare.number(1 << 16)
            number = len(block.pcs)
            pc = (block.end + block.pieces.get(number, 0)) & WORD
            block.pcs.append(pc)
            block.lengths.append(length)
            block.end = (pc + length) & WORD
            pushes = length <= 2 or byte & 0x80 or number + 1 in block.pieces
            for _ in range(count):
                block.accesses.append((number, *self.one_access(pushes)))
            if byte & 0x10:
                rsp = self.stack_pointer()
                moved = self.rare.signed() if affine else 0
                if not loop:
                    words += self.words.number(1 << 16)
                    demand(words <= block.words, "a way out has more words than the block")
                block.ways_out.append(WayOut(number, rsp, moved, block.words if loop else words))

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
        demand(flags < 8, "a step of unknown kind")
        slot, by = self.rare.number(1 << 16), signed(self.rare.signed())
        plus = (self.rare.number(1 << 16), self.scale()) if flags & 2 else None
        return Step(slot, by, bool(flags & 1), plus, bool(flags & 4))

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

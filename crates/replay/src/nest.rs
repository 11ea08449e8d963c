//! Loops of a chunk whose accesses all move evenly.
//!
//! **Problem.** Whoever simulates a loop can leave out what repeats, if it knows in advance how
//! every access will move. A chunk's loops are loops over records, and addresses follow from those
//! by plans.
//!
//! **Idea.** A record's values are functions of the iteration numbers of the loops around it: a
//! first value and a stride for each loop, the record's own self-loop included. All that a plan
//! does with them is linear, so addresses are such functions too, as long as three things hold: a
//! loop's trip count and strides are the same each time it is entered; the stack pointer is at the
//! end of an iteration what it was at its beginning; and arithmetic in less than 64 bits carries
//! nothing out of its bits, which the extremes of a value decide. This walks through the loop's
//! body once, however often it runs, and gives up where anything else occurs.
//!
//! **Invariant.** What [`Nest::of`] says of the accesses is true of every iteration.
use memtrail_decode::Block;
use memtrail_descriptor::{Definition, Dictionary};
use memtrail_model::{gcd, Mover, Repeat, Thread};
use memtrail_plan::{Lin, LoopPlan, Narrow, Plan, Shape, Step, FIRST, FS, GS, RSP};
use memtrail_trace::Known;

/// Loops inside each other, self-loops included.
const DEEPEST: usize = 8;
/// Records in a body, loops counted once.
const MOST_RECORDS: usize = 512;

/// A value in the iterations of the loops around it: `first` plus each loop's stride times its
/// iteration number, modulo 2^64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Value {
    first: u64,
    strides: [u64; DEEPEST],
}

impl Value {
    fn constant(first: u64) -> Value {
        Value {
            first,
            strides: [0; DEEPEST],
        }
    }

    fn is_constant(&self) -> bool {
        self.strides == [0; DEEPEST]
    }

    fn add(&mut self, other: &Value, scale: u64) {
        self.first = self.first.wrapping_add(other.first.wrapping_mul(scale));
        for (mine, theirs) in self.strides.iter_mut().zip(other.strides) {
            *mine = mine.wrapping_add(theirs.wrapping_mul(scale));
        }
    }

    fn of(lin: &Lin, slots: &[Value]) -> Value {
        let mut value = Value::constant(lin.c);
        for &(slot, scale) in lin.terms() {
            value.add(&slots[slot as usize], scale as i64 as u64);
        }
        value
    }
}

/// The loops around what is looked at, from the outermost: their trip counts.
#[derive(Clone, Debug, Default)]
struct Loops(Vec<u64>);

impl Loops {
    /// How far below and above its first value a value gets.
    fn extent(&self, value: &Value) -> (i128, i128) {
        let (mut below, mut above) = (0i128, 0i128);
        for (&trips, &stride) in self.0.iter().zip(&value.strides) {
            let way = i128::from(stride as i64)
                .checked_mul(i128::from(trips) - 1)
                .unwrap_or(i128::MAX / 16);
            below += way.min(0);
            above += way.max(0);
        }
        (below, above)
    }

    /// What an address moves by in loops inside the outermost are multiples of this.
    fn grain(&self, value: &Value) -> u64 {
        let inner = self.0.iter().zip(&value.strides).skip(1);
        let moving = inner.filter(|&(&trips, _)| trips > 1);
        moving.fold(0, |grain, (_, &stride)| gcd(grain, stride.min(stride.wrapping_neg())))
    }

    /// The value cut to less than 64 bits, if the cut never takes anything away that the first one
    /// did not.
    fn narrow(&self, narrow: Narrow, value: &Value) -> Option<Value> {
        let most = narrow.mask();
        // Strides of narrow registers are only meant modulo 2^bits: the nearer way round.
        let mut value = *value;
        for stride in &mut value.strides {
            let low = narrow.stride(*stride)? & most;
            let sign = 1u64 << (narrow.bits - 1);
            *stride = (low ^ sign).wrapping_sub(sign);
        }
        let low = i128::from((value.first >> narrow.from).wrapping_add(narrow.sign()) & most);
        let (below, above) = self.extent(&value);
        value.first = narrow.apply(value.first);
        (low + below >= 0 && low + above <= i128::from(most)).then_some(value)
    }
}

/// What is known of a loop whose accesses all move evenly.
#[derive(Clone, Debug)]
pub(crate) struct Nest {
    pub trips: u64,
    pub movers: Vec<Mover>,
    /// Of one iteration.
    pub accesses: u64,
    /// Of one iteration.
    pub words: u64,
    /// Following calls finds nothing in it.
    pub stays: bool,
}

impl Nest {
    /// What a sink is told.
    pub fn repeat(&self, thread: Thread) -> Repeat<'_> {
        Repeat {
            thread,
            trips: self.trips,
            accesses: self.accesses,
            movers: &self.movers,
        }
    }

    /// Looks at a loop that is entered with these carried values (stack pointer, segment bases).
    pub fn of(
        known: &Known,
        dictionary: &Dictionary,
        kind: u32,
        parameters: &[u64],
        carried: [u64; 3],
    ) -> Option<Nest> {
        let Definition::Loop(body) = dictionary.definition(kind) else {
            return None;
        };
        let trips = parameters[0];
        let values: Vec<Value> = parameters.iter().map(|&p| Value::constant(p)).collect();
        let mut survey = Survey {
            known,
            dictionary,
            carried: carried.map(Value::constant),
            loops: Loops::default(),
            movers: Vec::new(),
            accesses: 0,
            words: 0,
            records: 0,
            stays: true,
        };
        survey.repeat(body, &values)?;
        Some(Nest {
            trips,
            movers: survey.movers,
            accesses: survey.accesses / trips,
            words: survey.words / trips,
            stays: survey.stays,
        })
    }
}

/// A walk through the body of a loop.
struct Survey<'a> {
    known: &'a Known,
    dictionary: &'a Dictionary,
    carried: [Value; 3],
    loops: Loops,
    movers: Vec<Mover>,
    /// Of the whole loop.
    accesses: u64,
    words: u64,
    records: usize,
    stays: bool,
}

impl Survey<'_> {
    /// How often what is looked at happens.
    fn times(&self) -> Option<u64> {
        self.loops.0.iter().try_fold(1u64, |all, &trips| all.checked_mul(trips))
    }

    /// A loop over records, given as its parameters.
    fn repeat(&mut self, body: &[u32], parameters: &[Value]) -> Option<()> {
        let (trips, rest) = parameters.split_first()?;
        let (first, strides) = rest.split_at(rest.len() / 2);
        let level = self.loops.0.len();
        let constant = trips.is_constant() && strides.iter().all(Value::is_constant);
        if !constant || trips.first == 0 || level == DEEPEST {
            return None;
        }
        self.loops.0.push(trips.first);
        let mut values: Vec<Value> = first.to_vec();
        for (value, stride) in values.iter_mut().zip(strides) {
            value.strides[level] = stride.first;
        }
        let before = self.carried;
        let mut rest = values.as_slice();
        for &kind in body {
            let (own, others) = rest.split_at(self.dictionary.arity(kind));
            match self.dictionary.definition(kind) {
                Definition::Leaf(key) => self.leaf(*key, own)?,
                Definition::Loop(body) => self.repeat(body, own)?,
            }
            rest = others;
        }
        self.loops.0.pop();
        (self.carried == before).then_some(())
    }

    /// A record.
    fn leaf(&mut self, key: u32, values: &[Value]) -> Option<()> {
        self.records += 1;
        let found = self.known.table.find(key.into()).filter(|found| !found.steady)?;
        if self.records > MOST_RECORDS || found.words != values.len() + 1 {
            return None;
        }
        let block = found.block;
        let words = found.words as u64;
        self.words = self.words.checked_add(words.checked_mul(self.times()?)?)?;
        let mut slots = self.carried.to_vec();
        slots.extend_from_slice(values);
        match &block.plan.looping {
            None => {
                let side = found.side.and_then(|side| block.plan.sides.get(side));
                self.stays &= block.stays(side);
                // What was not captured matters to nobody.
                slots.resize(block.plan.slots() - block.plan.derived.len(), Value::constant(0));
                self.derive(block, &mut slots)?;
                self.plan(block, &slots, side.map(|side| side.insn))?;
                let exit = side.map_or(&block.plan.exit_rsp, |side| &side.rsp);
                self.carried[RSP as usize] = Value::of(exit, &slots);
                Some(())
            }
            Some(LoopPlan::Affine { steps, counter }) if found.side.is_none() => {
                self.self_loop(block, &mut slots, steps, counter)
            }
            Some(_) => None,
        }
    }

    /// A record that stands for the iterations of a block.
    fn self_loop(&mut self, block: &Block, slots: &mut Vec<Value>, steps: &[Step], counter: &Step) -> Option<()> {
        let level = self.loops.0.len();
        let stays = matches!(block.plan.exit_rsp.terms(), [(RSP, 1)]) && block.plan.exit_rsp.c == 0;
        if level == DEEPEST || !stays {
            return None;
        }
        self.stays &= block.stays(None);
        let (entry, exit) = (slots[counter.slot as usize], *slots.last()?);
        let trips = Plan::trips(counter, entry.first, exit.first);
        if entry.strides != exit.strides || trips == 0 {
            return None;
        }
        self.loops.0.push(trips);
        for step in steps.iter().filter(|step| step.moves()) {
            let mut stride = step.by;
            if let Some((slot, scale)) = step.plus {
                let plus = slots[slot as usize];
                if steps.iter().any(|other| other.slot == slot && other.moves()) || !plus.is_constant() {
                    return None;
                }
                stride = stride.wrapping_add(plus.first.wrapping_mul(scale as i64 as u64));
            }
            let value = &mut slots[step.slot as usize];
            if step.slot < FIRST || value.strides[level] != 0 {
                return None;
            }
            value.strides[level] = stride;
            if step.low32 {
                // The upper half of the register is 0 from the second iteration on.
                let narrow = self.loops.narrow(Narrow::ZERO32, value)?;
                if narrow.first != value.first || narrow.strides[..level] != value.strides[..level] {
                    return None;
                }
                *value = narrow;
            }
        }
        self.derive(block, slots)?;
        self.plan(block, slots, None)?;
        self.loops.0.pop();
        Some(())
    }

    /// Adds the derived values.
    fn derive(&self, block: &Block, slots: &mut Vec<Value>) -> Option<()> {
        for derived in &block.plan.derived {
            let value = Value::of(&derived.of, slots);
            slots.push(self.loops.narrow(derived.narrow, &value)?);
        }
        Some(())
    }

    /// The accesses of a block, up to an instruction if it was left there.
    fn plan(&mut self, block: &Block, slots: &[Value], last: Option<u16>) -> Option<()> {
        let times = self.times()?;
        let made = |insn: u16| last.is_none_or(|last| insn <= last);
        let inside = times / self.loops.0[0];
        for (n, access) in block
            .plan
            .accesses
            .iter()
            .enumerate()
            .filter(|(_, access)| made(access.insn))
        {
            let Shape::Plain { addr, size } = &access.shape else {
                return None;
            };
            let mut value = Value::of(&addr.lin, slots);
            if addr.low32 {
                value = self.loops.narrow(Narrow::ZERO32, &value)?;
            }
            if let Some(segment) = addr.segment {
                value.add(&slots[segment as usize], 1);
            }
            let (below, above) = self.loops.extent(&value);
            let last = above + i128::from(*size).max(1) - 1;
            self.movers.push(Mover {
                point: block.point(n),
                times: inside,
                kind: access.kind,
                shift: value.strides[0],
                first: value.first,
                size: *size,
                grain: self.loops.grain(&value),
                low: u64::try_from(i128::from(value.first) + below).ok()?,
                high: u64::try_from(i128::from(value.first) + last).ok()?,
            });
            self.accesses = self.accesses.checked_add(times)?;
        }
        Some(())
    }
}

const _: () = assert!(RSP < FIRST && FS < FIRST && GS < FIRST);

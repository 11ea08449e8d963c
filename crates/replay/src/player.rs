//! The accesses of one thread, chunk by chunk.
use crate::gate::Gate;
use crate::nest::Nest;
use crate::select::{before, clip, segments, Part, Point};
use crate::Segment;
use memtrail_decode::{Counter, DecodeError, Expander, Kinds, Records, State, ThreadDecoder};
use memtrail_descriptor::{Definition, Dictionary, Events};
use memtrail_model::{AccessSink, Event, Reply, Thread};
use memtrail_trace::{cuts, walk, Bad, Chunk, Drive, Error, Known, LeafName, Stream};
use std::collections::HashMap;

/// Decodes the chunks of a part, one after the other.
pub(crate) struct Player<'k, S: AccessSink> {
    known: &'k Known,
    part: Part,
    decoder: Option<ThreadDecoder>,
    expander: Expander<'k, Gate<S>>,
    /// Accesses to be left out before the first that is handed on.
    skip: u64,
    /// Accesses that are wanted.
    wanted: u64,
    /// The chunk begun last comes before the selection.
    leading: bool,
    /// A chunk of the selection was begun.
    begun: bool,
}

impl<'k, S: AccessSink> Player<'k, S> {
    pub fn new(known: &'k Known, part: Part, limit: u64, sink: S) -> Player<'k, S> {
        let from = match part.from {
            Some(Point::Access(n)) => n,
            _ => 0,
        };
        let first = part.chunks.get(part.lead).map_or(from, |c| c.head.stream.first);
        let wanted = match part.to {
            Some(Point::Access(n)) => limit.min(n.saturating_sub(from)),
            _ => limit,
        };
        Player {
            known,
            part,
            decoder: None,
            expander: Expander::new(&known.xsave, Gate::new(sink, wanted)),
            skip: from.saturating_sub(first),
            wanted,
            leading: false,
            begun: false,
        }
    }

    /// Tells the sink of forks as such: nobody puts this thread in one order with others.
    pub fn alone(mut self) -> Player<'k, S> {
        self.expander.flush().space = Some(self.known.space(self.part.thread));
        self
    }

    pub fn sink(&mut self) -> &mut S {
        self.expander.flush().sink()
    }

    /// What the chunks so far have led to.
    pub fn state(&self) -> Option<State> {
        self.decoder.as_ref().map(ThreadDecoder::state)
    }

    /// Begins with a chunk, the next of the part: finds out which of its accesses are selected.
    /// Returns when those happened.
    pub fn begin(&mut self, chunk: &Chunk, stream: &Stream) -> Result<Vec<Segment>, Error> {
        let head = chunk.head.stream;
        let damaged = |what| Error::Damaged { at: chunk.at, what };
        let mut segments = segments(&head, stream).map_err(damaged)?;
        if self.decoder.is_none() {
            self.decoder = Some(ThreadDecoder::resume(self.part.thread, &stream.state));
        }
        self.leading = self.part.lead > 0;
        if self.leading {
            self.part.lead -= 1;
            return Ok(Vec::new());
        }
        if !std::mem::replace(&mut self.begun, true) {
            if let Some(Point::Time(t)) = self.part.from {
                self.skip = before(&segments, t);
            }
        }
        let gate = self.expander.flush();
        if let Some(Point::Time(t)) = self.part.to {
            if head.end >= t {
                let wanted = before(&segments, t).saturating_sub(self.skip);
                gate.wanted = gate.wanted.min(wanted);
                self.part.ends = false;
            }
        }
        self.wanted = gate.wanted;
        clip(&mut segments, self.skip, self.wanted);
        Ok(segments)
    }

    /// Hands on the selected accesses of the chunk begun last. Returns whether more are wanted.
    pub fn play(&mut self, chunk: &Chunk, stream: &Stream) -> Result<bool, Error> {
        let head = chunk.head.stream;
        let Player {
            known,
            decoder: Some(decoder),
            expander,
            skip,
            ..
        } = self
        else {
            return Ok(false);
        };
        let mut counter = Counter::new(&known.xsave);
        // Fetches that follow the last access left out are wanted.
        let follows = u64::from(expander.flush().wants.fetches);
        let gate = expander.flush();
        let history = gate.wants.history();
        // Whoever wants to know what happened on the way is not spared what is left out.
        let mut counting = *skip > 0 && !history;
        if self.leading {
            promise(expander, head.accesses, head.accesses);
        } else if !counting {
            promise(expander, *skip, head.accesses);
            *skip -= head.accesses.min(*skip);
        }
        if !counting {
            let mut driver = Driver {
                known,
                thread: self.part.thread,
                decoder,
                repeats: expander.flush().wants().repeats,
                expander,
                kinds: kinds(&stream.events.dictionary, known),
                failed: None,
                nests: Vec::new(),
                uneven: HashMap::new(),
            };
            let expanded = walk(stream, head.words, &mut driver);
            if let Some(source) = driver.failed {
                return Err(Error::Decode { at: chunk.at, source });
            }
            return played(expander, chunk, expanded);
        }
        let mut failed: Option<DecodeError> = None;
        let mut stopped = false;
        let expanded = stream.words(head.words, |words| {
            let mut feed = || {
                if counting {
                    let (state, passed) = (decoder.state(), counter.accesses());
                    decoder.feed(&known.table, words, &mut counter)?;
                    let passed_over = *skip - follows.min(*skip);
                    if counter.accesses() <= passed_over {
                        return Ok(());
                    }
                    // The first access wanted is in this batch: once more, and now with addresses.
                    counting = false;
                    *decoder = ThreadDecoder::resume(self.part.thread, &state);
                    *skip -= passed;
                    promise(expander, *skip, head.accesses.saturating_sub(passed));
                    *skip = 0;
                }
                decoder.feed(&known.table, words, expander)
            };
            failed = feed().err();
            stopped = expander.full() || expander.done();
            failed.is_none() && !stopped
        });
        if let Some(source) = failed {
            return Err(Error::Decode { at: chunk.at, source });
        }
        let damaged = |what| Error::Damaged { at: chunk.at, what };
        if counting {
            // Everything was left out.
            expanded.map_err(damaged)?;
            if counter.accesses() != head.accesses {
                return Err(damaged(OTHER_NUMBER));
            }
            *skip -= head.accesses;
            return Ok(true);
        }
        played(expander, chunk, expanded)
    }

    /// After the last chunk: how many accesses the last record of the thread has that are wanted.
    /// `None` if nothing of it is.
    pub fn last(&mut self) -> Result<Option<Segment>, Error> {
        let (Some(decoder), true, Some(chunk)) = (&self.decoder, self.part.ends, self.part.chunks.last()) else {
            return Ok(None);
        };
        let mut copy = ThreadDecoder::resume(self.part.thread, &decoder.state());
        let mut counter = Counter::new(&self.known.xsave);
        let counted = copy.finish(&self.known.table, &mut counter);
        counted.map_err(|source| Error::Decode { at: chunk.at, source })?;
        let accesses = counter.accesses();
        promise(&mut self.expander, self.skip, accesses);
        let gate = self.expander.flush();
        let wanted = gate.wanted.min(accesses.saturating_sub(self.skip));
        let fetches = gate.wants.fetches && gate.wanted > 0;
        let end = chunk.head.stream.end;
        Ok((wanted > 0 || fetches).then_some(Segment {
            begin: end,
            end,
            accesses: wanted,
        }))
    }

    /// Hands on the accesses of the thread's last record.
    pub fn finish(&mut self) -> Result<(), Error> {
        let at = self.part.chunks.last().map_or(0, |c| c.at);
        if let Some(decoder) = &mut self.decoder {
            let finished = decoder.finish(&self.known.table, &mut self.expander);
            finished.map_err(|source| Error::Decode { at, source })?;
        }
        self.expander.flush();
        Ok(())
    }
}

/// After a chunk: whether it held what it should, and whether more is wanted.
fn played<S: AccessSink>(
    expander: &mut Expander<'_, Gate<S>>,
    chunk: &Chunk,
    expanded: Result<(), Bad>,
) -> Result<bool, Error> {
    let damaged = |what| Error::Damaged { at: chunk.at, what };
    let gate = expander.flush();
    if gate.surplus {
        return Err(damaged(OTHER_NUMBER));
    }
    if gate.done() {
        return Ok(false);
    }
    expanded.map_err(damaged)?;
    if gate.promised > 0 {
        return Err(damaged(OTHER_NUMBER));
    }
    Ok(true)
}

/// Feeds a stream to a sink.
struct Driver<'d, 'k, S: AccessSink> {
    known: &'k Known,
    thread: Thread,
    decoder: &'d mut ThreadDecoder,
    expander: &'d mut Expander<'k, Gate<S>>,
    /// What the stream's events are.
    kinds: Kinds,
    failed: Option<DecodeError>,
    /// The sink wants to know of loops.
    repeats: bool,
    /// The loops that the sink is asked about, innermost last.
    nests: Vec<Nest>,
    /// Kinds of loops that were looked at to no avail.
    uneven: HashMap<u32, Uneven>,
}

/// A kind of loop that was looked at to no avail. It may be otherwise where it has more iterations,
/// or begins elsewhere.
#[derive(Default)]
struct Uneven {
    /// How often it comes before it is looked at again, and how often it came between the last two
    /// times.
    pause: u64,
    last_pause: u64,
}

impl Uneven {
    const LONGEST_PAUSE: u64 = 4096;

    /// It comes: whether it is not to be looked at.
    fn pauses(&mut self) -> bool {
        let pauses = self.pause > 0;
        self.pause -= u64::from(pauses);
        pauses
    }

    /// It was to no avail again.
    fn pause(&mut self) {
        self.last_pause = (2 * self.last_pause + 1).min(Uneven::LONGEST_PAUSE);
        self.pause = self.last_pause;
    }
}

impl<S: AccessSink> Driver<'_, '_, S> {
    /// Remembers what went wrong; whether nothing did.
    fn fine(&mut self, result: Result<(), DecodeError>) -> bool {
        self.failed = self.failed.take().or(result.err());
        self.failed.is_none()
    }

    /// Everything up to here reaches the sink. The next record must not say anything of the last.
    fn settle(&mut self) -> bool {
        let settled = self.decoder.hand_on(&self.known.table, self.expander);
        self.expander.flush();
        self.fine(settled)
    }
}

/// What the kinds of a stream's events are, as far as they are records.
fn kinds(dictionary: &Dictionary, known: &Known) -> Kinds {
    let mut kinds = Kinds::default();
    for kind in 0..dictionary.len() as u32 {
        let first = first_leaf(dictionary, kind);
        match (dictionary.definition(kind), LeafName::of(first)) {
            (Definition::Leaf(_), LeafName::Block { head }) => {
                kinds.push(&known.table, head.into(), dictionary.arity(kind));
            }
            _ => kinds.push_other(cuts(first)),
        }
    }
    kinds
}

/// The key of the first record of an event.
fn first_leaf(dictionary: &Dictionary, mut kind: u32) -> u32 {
    loop {
        match dictionary.definition(kind) {
            Definition::Leaf(key) => return *key,
            // No loop is empty.
            Definition::Loop(body) => kind = body[0],
        }
    }
}

impl<S: AccessSink> Drive for Driver<'_, '_, S> {
    fn words(&mut self, words: &[u64]) -> bool {
        let fed = self.decoder.feed(&self.known.table, words, self.expander);
        self.fine(fed) && !self.expander.full() && !self.expander.done()
    }

    fn takes(&self, kind: u32) -> bool {
        self.kinds.is_ready(kind)
    }

    fn records(&mut self, events: &Events, first: usize) -> Option<(usize, u64)> {
        let (kinds, values) = events.rest(first);
        let records = Records {
            kinds,
            values,
            what: &self.kinds,
        };
        let fed = self.decoder.feed_records(&self.known.table, &records, self.expander);
        self.failed = self.failed.take().or(fed.as_ref().err().cloned());
        fed.ok().filter(|_| !self.expander.full() && !self.expander.done())
    }

    fn enters(&mut self, dictionary: &Dictionary, kind: u32, parameters: &[u64]) -> u64 {
        if !self.repeats {
            return 0;
        }
        if self.uneven.get_mut(&kind).is_some_and(Uneven::pauses) {
            return 0;
        }
        let first = LeafName::of(first_leaf(dictionary, kind));
        if !matches!(first, LeafName::Block { .. }) || !self.settle() {
            return 0;
        }
        let carried = self.decoder.state().carried;
        let Some(nest) = Nest::of(self.known, dictionary, kind, parameters, carried) else {
            self.uneven.entry(kind).or_default().pause();
            return 0;
        };
        let wants = self.expander.flush().wants;
        if wants.history() && !nest.stays {
            self.uneven.entry(kind).or_default().pause();
            return 0;
        }
        let enter = Event::Enter(nest.repeat(self.thread));
        let after = self.expander.flush().event(enter).after;
        if after > 0 {
            self.nests.push(nest);
        } else {
            self.uneven.entry(kind).or_default().pause();
        }
        after
    }

    fn iterated(&mut self, done: u64, left: u64) -> (Reply, u64) {
        if !self.settle() {
            return (Reply::NOTHING, 0);
        }
        let Some(nest) = self.nests.last() else {
            return (Reply::NOTHING, 0);
        };
        let repeat = nest.repeat(self.thread);
        let reply = self.expander.flush().event(Event::Iterated { repeat, done, left });
        self.expander.leave_out(reply.skip * nest.accesses);
        (reply, reply.skip * nest.words)
    }

    fn leaves(&mut self) {
        self.nests.pop();
        self.expander.flush().event(Event::Leave);
    }
}

pub(crate) const OTHER_NUMBER: &str = "a chunk has another number of accesses than its head says";

/// Lets through what comes next: after `skip`, as many as are wanted, and no more than `promised`,
/// in all.
fn promise<S: AccessSink>(expander: &mut Expander<'_, Gate<S>>, skip: u64, promised: u64) {
    let gate = expander.flush();
    gate.skip = skip;
    gate.promised = promised;
    // One more than promised, to notice it.
    let most = promised.saturating_add(1).min(skip.saturating_add(gate.wanted));
    expander.set_limit(most);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uneven_loops_are_looked_at_again_ever_more_rarely() {
        let mut uneven = Uneven::default();
        let mut looked_at = Vec::new();
        for time in 0..20_000 {
            if !uneven.pauses() {
                looked_at.push(time);
                uneven.pause();
            }
        }
        assert_eq!(looked_at[..5], [0, 2, 6, 14, 30]);
        assert_eq!(looked_at.len(), 15);
    }
}

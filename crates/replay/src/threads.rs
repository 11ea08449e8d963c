//! Several threads' accesses as one sequence.
//!
//! **Problem.** A record may stand for any number of accesses, so a thread's decoder cannot be left
//! and taken up again wherever another thread's turn comes.
//!
//! **Idea.** Every recorded thread is decoded by a thread of its own, which sends its accesses in
//! batches and waits as soon as a few are under way. It is started when the recorded thread's first
//! access is due, and ends with it: there are never more than the recorded program had, and memory
//! is bounded by them.
use crate::interleave::{interleave, Order, Segment, Stream};
use crate::limit::{count, end_of, Limit};
use crate::player::Player;
use crate::select::{Part, Selection};
use crate::turns::{Member, Turns};
use crate::Input;
use memtrail_decode::Noted;
use memtrail_model::{Access, AccessSink, Edge, Event, Flow, Note, Reply, Thread, Wants};
use memtrail_trace::{parse, Error, Known};
use std::cell::RefCell;
use std::collections::{HashSet, VecDeque};
use std::io::{self, Read, Seek};
use std::rc::Rc;
use std::sync::mpsc::{channel, sync_channel, Receiver, Sender, SyncSender};
use std::thread::{Builder, Scope};

/// Accesses in a batch.
const BATCH: usize = 4096;
/// A segment of no accesses.
const NOTHING: Segment = Segment {
    begin: 0,
    end: 0,
    accesses: 0,
};
/// Batches under way.
const AHEAD: usize = 2;
const STACK_BYTES: usize = 1 << 20;

/// What comes among accesses.
#[derive(Clone, Copy)]
enum Aside {
    Flow(Flow),
    Edge(Edge),
    Note(Numbered),
}

/// A note and its number.
#[derive(Clone, Copy)]
struct Numbered {
    number: u64,
    noted: Noted,
}

impl Numbered {
    /// A new image begins with it.
    fn is_fresh(&self) -> bool {
        matches!(&self.noted, Noted::Note(note) if Noted::is_new_image(note))
    }
}

#[derive(Default)]
struct Batch {
    accesses: Vec<Access>,
    /// Each before the access with this number.
    asides: VecDeque<(usize, Aside)>,
}

impl Batch {
    fn clear(&mut self) {
        self.accesses.clear();
        self.asides.clear();
    }
}

/// From a thread that decodes.
enum Sent {
    /// When the accesses happened that come next.
    Segments(Vec<Segment>),
    Batch(Batch),
    Failed(Error),
}

/// Why replay ends.
enum End {
    /// As many as were wanted have been handed on.
    Enough,
    Failed(Error),
}

impl From<Error> for End {
    fn from(error: Error) -> End {
        End::Failed(error)
    }
}

/// The sink of a thread that decodes.
struct Courier {
    batch: Batch,
    out: SyncSender<Sent>,
    used: Receiver<Batch>,
    wants: Wants,
    gone: bool,
}

impl Courier {
    fn send(&mut self, sent: Sent) {
        self.gone |= self.out.send(sent).is_err();
    }
    fn send_batch(&mut self) {
        if !self.batch.accesses.is_empty() || !self.batch.asides.is_empty() {
            let mut next = self.used.try_recv().unwrap_or_default();
            next.clear();
            let batch = std::mem::replace(&mut self.batch, next);
            self.send(Sent::Batch(batch));
        }
    }
    fn aside(&mut self, aside: Aside) {
        if self.batch.asides.len() >= BATCH {
            self.send_batch();
        }
        let before = self.batch.accesses.len();
        self.batch.asides.push_back((before, aside));
    }
}

impl AccessSink for Courier {
    fn accesses(&mut self, mut batch: &[Access]) {
        while !batch.is_empty() && !self.gone {
            let room = (BATCH - self.batch.accesses.len()).min(batch.len());
            self.batch.accesses.extend_from_slice(&batch[..room]);
            batch = &batch[room..];
            if self.batch.accesses.len() == BATCH {
                self.send_batch();
            }
        }
    }
    fn wants(&self) -> Wants {
        self.wants
    }
    fn event(&mut self, event: Event<'_>) -> Reply {
        match event {
            Event::Flow { flow, .. } => self.aside(Aside::Flow(flow)),
            Event::Edge { edge, .. } => self.aside(Aside::Edge(*edge)),
            Event::Note { number, note, .. } => {
                let noted = Noted::Note(*note);
                self.aside(Aside::Note(Numbered { number, noted }));
            }
            Event::ForkCall { number, child, .. } => {
                let noted = Noted::Fork { child };
                self.aside(Aside::Note(Numbered { number, noted }));
            }
            // Not wanted, or told by the one who puts the threads in order.
            Event::Loop(_) | Event::Enter(_) | Event::Iterated { .. } | Event::Leave => {}
            Event::Space { .. } | Event::Fork { .. } => {}
        }
        Reply::NOTHING
    }
    fn done(&self) -> bool {
        self.gone
    }
}

/// The body of a thread that decodes.
fn decode<R: Read + Seek>(input: &Input<'_, R>, known: &Known, part: Part, courier: Courier) {
    let chunks = part.chunks.clone();
    let mut player = Player::new(known, part, u64::MAX, courier);
    let (mut decoding, mut stream) = Default::default();
    let mut run = || {
        for chunk in &chunks {
            parse(known, chunk, &input.payload(chunk)?, &mut decoding, &mut stream)?;
            let segments = player.begin(chunk, &stream)?;
            player.sink().send(Sent::Segments(segments));
            let more = player.play(chunk, &stream)?;
            player.sink().send_batch();
            if !more {
                return Ok(());
            }
        }
        if let Some(last) = player.last()? {
            player.sink().send(Sent::Segments(vec![last]));
            player.finish()?;
            player.sink().send_batch();
        }
        Ok(())
    };
    if let Err(error) = run() {
        player.sink().send_batch();
        player.sink().send(Sent::Failed(error));
    }
}

/// A thread that decodes, seen from outside.
struct Running {
    sent: Receiver<Sent>,
    used: Sender<Batch>,
}

/// One recorded thread.
struct Remote<'scope, 'env, 'r, R> {
    scope: &'scope Scope<'scope, 'env>,
    input: &'env Input<'r, R>,
    known: &'env Known,
    part: Part,
    running: Option<Running>,
    /// Its first access was promised before it was started.
    promised: bool,
    segments: VecDeque<Segment>,
    batch: Batch,
    /// Accesses of the batch already handed on.
    taken: usize,
    /// Its notes have to wait for those of other threads.
    turn: Option<Turn>,
    wants: Wants,
}

impl<R: Read + Seek + Send> Remote<'_, '_, '_, R> {
    fn start(&mut self) -> Result<(), Error> {
        if self.running.is_none() {
            let (out, sent) = sync_channel(AHEAD);
            let (used, back) = channel();
            let courier = Courier {
                batch: Batch::default(),
                out,
                used: back,
                wants: self.wants,
                gone: false,
            };
            let (input, known, part) = (self.input, self.known, self.part.clone());
            Builder::new()
                .name(format!("replay {}", part.thread.0))
                .stack_size(STACK_BYTES)
                .spawn_scoped(self.scope, move || decode(input, known, part, courier))
                .map_err(|e| io::Error::new(e.kind(), format!("cannot start a thread for each recorded one: {e}")))?;
            self.running = Some(Running { sent, used });
        }
        Ok(())
    }

    /// Takes what comes next. `false` if nothing more does.
    fn receive(&mut self) -> Result<bool, Error> {
        self.start()?;
        let Some(running) = &self.running else {
            return Ok(false);
        };
        match running.sent.recv() {
            Ok(Sent::Segments(segments)) => self.segments.extend(segments),
            Ok(Sent::Batch(batch)) => {
                let used = std::mem::replace(&mut self.batch, batch);
                self.taken = 0;
                // It may have ended, and needs no more room.
                let _ = running.used.send(used);
            }
            Ok(Sent::Failed(error)) => return Err(error),
            Err(_) => return Ok(false),
        }
        Ok(true)
    }

    /// Hands on what comes before the next access. Returns `false` if it is not the turn of a note.
    fn tell<S: AccessSink>(&mut self, sink: &mut S) -> bool {
        let thread = self.part.thread;
        while let Some((_, aside)) = self.batch.asides.front().filter(|&&(at, _)| at <= self.taken) {
            match (aside, &mut self.turn) {
                (&Aside::Flow(flow), _) => {
                    sink.event(Event::Flow { thread, flow });
                }
                (Aside::Edge(edge), _) => {
                    sink.event(Event::Edge { thread, edge });
                }
                (Aside::Note(note), Some(turn)) => {
                    if !turn.take(thread, note, sink) {
                        return false;
                    }
                }
                (Aside::Note(_), None) => {}
            }
            self.batch.asides.pop_front();
        }
        true
    }

    /// Hands on accesses of the batch up to this one, with what comes among them, unless a note has
    /// to wait.
    fn hand_on<S: AccessSink>(&mut self, end: usize, sink: &mut S) -> bool {
        while self.taken < end {
            if !self.tell(sink) {
                return false;
            }
            let next = self.batch.asides.front().map_or(end, |&(at, _)| at.min(end));
            sink.accesses(&self.batch.accesses[self.taken..next]);
            self.taken = next;
        }
        true
    }

    /// What follows the last access of the batch, unless a note has to wait.
    fn hand_on_rest<S: AccessSink>(&mut self, sink: &mut S) -> bool {
        if self.wants.fetches && !self.hand_on(self.batch.accesses.len(), sink) {
            return false;
        }
        self.taken < self.batch.accesses.len() || self.tell(sink)
    }

    /// A segment of what has not been promised.
    fn next_segment(&mut self) -> Option<Segment> {
        let mut segment = self.segments.pop_front()?;
        if self.promised && segment.accesses > 0 {
            segment.accesses -= 1;
            self.promised = false;
        }
        Some(segment)
    }
}

impl<R: Read + Seek + Send> Stream for Remote<'_, '_, '_, R> {
    type Error = End;

    fn segment<S: AccessSink>(&mut self, sink: &mut S) -> Result<Option<Segment>, End> {
        if self.running.is_none() && !self.promised && self.part.begins_with_chunk() {
            // Known without a look into the chunk.
            self.promised = true;
            let begin = self.part.chunks[0].head.stream.begin;
            return Ok(Some(Segment {
                begin,
                end: begin,
                accesses: 1,
            }));
        }
        loop {
            if let Some(segment) = self.next_segment() {
                return Ok(Some(segment));
            }
            if !self.hand_on_rest(sink) {
                return Ok(Some(NOTHING));
            }
            if !self.receive()? {
                if let Some(turn) = &mut self.turn {
                    turn.end();
                }
                return Ok(None);
            }
        }
    }

    fn settle<S: AccessSink>(&mut self, sink: &mut S) -> Result<bool, End> {
        let begun = self.turn.as_mut().is_none_or(|turn| turn.begin(sink));
        Ok(begun && self.tell(sink))
    }

    fn insist(&mut self) {
        if let Some(turn) = &mut self.turn {
            turn.insists = true;
        }
    }

    fn waits_for(&self) -> u64 {
        self.turn.as_ref().map_or(0, Turn::number)
    }

    fn produce<S: AccessSink>(&mut self, n: u64, sink: &mut S) -> Result<u64, End> {
        let mut wanted = n;
        while wanted > 0 {
            let from = self.taken;
            let rest = &self.batch.accesses[from..];
            if !rest.is_empty() {
                let end = end_of(rest, wanted, self.wants.fetches);
                let went_on = self.hand_on(from + end, sink);
                wanted -= count(&self.batch.accesses[from..self.taken], self.wants.fetches);
                if went_on {
                    continue;
                }
                break;
            }
            if !self.hand_on_rest(sink) {
                break;
            }
            if !self.receive()? {
                if self.promised {
                    // All of it happened after what was selected.
                    return Ok(n);
                }
                let (at, what) = (self.part.chunks[0].at, "a thread's accesses end too early");
                return Err(Error::Damaged { at, what }.into());
            }
        }
        if sink.done() {
            return Err(End::Enough);
        }
        Ok(n - wanted)
    }
}

/// A recorded thread's part in the order of notes.
struct Turn {
    turns: Rc<RefCell<Turns>>,
    member: Member,
    thread: Thread,
    /// The space whose notes its own are numbered with, until a new image begins, and from then on.
    space: u32,
    next_space: u32,
    begun: bool,
    ended: bool,
    /// Its next note waits for nobody.
    insists: bool,
}

impl Turn {
    fn new(known: &Known, part: &Part, member: Member, turns: Rc<RefCell<Turns>>) -> Turn {
        let space = part.chunks[0].head.stream.process;
        turns.borrow_mut().join(space);
        Turn {
            turns,
            member,
            thread: part.thread,
            space,
            next_space: known.space(part.thread),
            begun: false,
            ended: false,
            insists: false,
        }
    }

    fn number(&self) -> u64 {
        self.turns.borrow().number(self.space, self.member)
    }

    /// Before anything is handed on. Returns `false` if the process is still to be forked, or the
    /// thread to be made.
    fn begin<S: AccessSink>(&mut self, sink: &mut S) -> bool {
        if !self.begun {
            let mut turns = self.turns.borrow_mut();
            let awaits = turns.awaits_fork(self.space) || turns.awaits_start(self.thread.0);
            if !self.insists && awaits {
                return false;
            }
            if let Some(parent) = turns.fork(self.space) {
                let child = self.space;
                sink.event(Event::Fork { parent, child });
            }
            (self.begun, self.insists) = (true, false);
        }
        true
    }

    /// Hands a note on if it is its turn.
    fn take<S: AccessSink>(&mut self, thread: Thread, note: &Numbered, sink: &mut S) -> bool {
        let mut turns = self.turns.borrow_mut();
        let (number, fresh) = (note.number, note.is_fresh());
        let awaits = matches!(&note.noted, Noted::Note(note) if turns.awaits_end(self.space, note));
        let may = turns.may(self.space, self.member, number, fresh) && !awaits;
        if !may && !self.insists {
            return false;
        }
        self.insists = false;
        if fresh && self.space != self.next_space {
            turns.leave(self.space, self.member);
            turns.join(self.next_space);
            self.space = self.next_space;
        }
        turns.went(self.space, self.member, number, fresh);
        match &note.noted {
            Noted::Note(note) => {
                match *note {
                    Note::Start {
                        thread: Some(made),
                        cleared,
                    } => {
                        turns.started(made.0);
                        turns.lives(self.space, made.0, cleared);
                    }
                    Note::End { .. } => turns.ended(thread.0),
                    _ => {}
                }
                sink.event(Event::Note { thread, number, note });
            }
            &Noted::Fork { child: Some(child) } => {
                turns.fork(child);
                let parent = self.space;
                sink.event(Event::Fork { parent, child });
            }
            Noted::Fork { child: None } => {}
        }
        true
    }

    /// Nothing more comes.
    fn end(&mut self) {
        if !std::mem::replace(&mut self.ended, true) {
            self.turns.borrow_mut().leave(self.space, self.member);
        }
    }
}

/// Threads that another thread made, and told of: all but the first of each process. What was
/// recorded elsewhere tells of nothing, and has no texts.
fn unmade(known: &Known) -> HashSet<u32> {
    if known.definitions.texts.is_empty() {
        return HashSet::new();
    }
    let mut processes = HashSet::new();
    let threads = known.threads.values();
    // In the order of serial numbers.
    let others = threads.filter(|thread| !processes.insert(thread.process));
    others.map(|thread| thread.serial).collect()
}

/// The notes of threads' ends, by address space and number. A thread's last record is its end,
/// unless it was killed.
fn ends<R: Read + Seek + Send>(
    input: &Input<'_, R>,
    known: &Known,
    remotes: &[Remote<'_, '_, '_, R>],
) -> Result<HashSet<(u32, u64)>, Error> {
    let (mut decoding, mut stream) = Default::default();
    let mut ends = HashSet::new();
    for part in remotes.iter().map(|remote| &remote.part).filter(|part| part.ends) {
        let Some(chunk) = part.chunks.last() else { continue };
        parse(known, chunk, &input.payload(chunk)?, &mut decoding, &mut stream)?;
        let mut last = [0; 3];
        let expanded = stream.words(chunk.head.stream.words, |words| {
            for &word in &words[words.len().saturating_sub(3)..] {
                last = [last[1], last[2], word];
            }
            true
        });
        expanded.map_err(|what| Error::Damaged { at: chunk.at, what })?;
        if last[0] == memtrail_ring::record::ENDED {
            ends.insert((known.space(part.thread), last[1]));
        }
    }
    Ok(ends)
}

/// Replays several threads.
pub(crate) fn together<R: Read + Seek + Send, S: AccessSink>(
    input: &Input<'_, R>,
    known: &Known,
    parts: Vec<Part>,
    selection: &Selection,
    sink: &mut S,
) -> Result<(), Error> {
    let sink = &mut Limit::new(sink, selection.limit);
    // Each thread by itself may be in the middle of a loop when it is another's turn.
    let wants = Wants {
        loops: None,
        repeats: false,
        ..sink.wants()
    };
    let ended = std::thread::scope(|scope| {
        let remote = |part| Remote {
            scope,
            input,
            known,
            part,
            running: None,
            promised: false,
            segments: VecDeque::new(),
            batch: Batch::default(),
            taken: 0,
            wants,
            turn: None,
        };
        let mut remotes: Vec<_> = parts.into_iter().map(remote).collect();
        if wants.notes {
            let mut turns = Turns::new(known.forks(), unmade(known));
            if matches!(selection.order, Order::EqualRate { .. }) {
                turns.let_run_on(ends(input, known, &remotes)?);
            }
            let turns = Rc::new(RefCell::new(turns));
            for (i, remote) in remotes.iter_mut().enumerate() {
                remote.turn = Some(Turn::new(known, &remote.part, i, turns.clone()));
            }
        }
        interleave(&mut remotes, selection.order, sink)
    });
    match ended {
        Ok(()) | Err(End::Enough) => Ok(()),
        Err(End::Failed(error)) => Err(error),
    }
}

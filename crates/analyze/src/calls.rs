//! Call paths: which calls led to where a thread is.
//!
//! **Problem.** Calls and returns do not always pair up: longjmp and exceptions leave many
//! functions at once, signal handlers come in between and may never return, coroutines change
//! stacks. And a path must be a number that is cheap to compare, while recursion would make
//! endlessly many of them.
//!
//! **Paths** are nodes of one [`Tree`] for all threads: an edge is a call site (the address of the
//! call instruction) or the beginning of a signal handler. Node 0 is the root. *Recursion is
//! folded*: a call from a site that is on the path already leads back to the node where that site
//! was first, so that no path has a site twice and the tree depends on what the program is like and
//! not on how deep it goes. The shadow stack knows the real depth: returns lead back through the
//! same nodes. A tree has at most [`Tree::LIMIT`] nodes; calls beyond belong to their caller.
//!
//! **Frames go by addresses.** A thread's shadow stack has the place in memory of each return
//! address (its *slot*). Stacks grow down, so whatever says where the stack pointer is also says
//! which frames are gone: those below. A call drops frames at its slot or below, a return likewise,
//! a changed stack pointer those below it. No event needs its counterpart, and nothing is wrong for
//! longer than until the next event.
//!
//! **Other stacks.** A stack has been seen from the last known place of the stack pointer (`last`)
//! up to the highest one (`high`). When the stack pointer changes to `rsp`, it is on
//! - the stack in use, if it is no further than [`NEAR`] outside what was seen of it (a function
//!   may have a large frame that no event has told of);
//! - a stack that was left, if it is no further than [`RESUME`] outside of that one: whoever comes
//!   back to a stack does so where it was left, less what the switching function pushed;
//! - of several the one whose `last` is nearest: a stack may lie in an array on another one;
//! - otherwise a new one, whose frames are on top of the node where it was entered first.
//!
//! A switch may be told by nothing but a return to a slot that the stack in use does not have, or a
//! call that is far outside of it: the same rule then finds out where they are.
//!
//! Taking a huge frame for a new stack does no harm: the node is the same, and coming back finds
//! the old one. Such a mistake must not be found again later, though. A stack that is left without
//! frames is forgotten; so are those that are left for an older one they came from by dropping two
//! or more frames of it, which is a throw and no switch: a switch drops at most the frame of the
//! switching function. If the new one is right below the old one, one frame is enough. Coming back
//! to a stack above all its frames means that its memory has got a new use: its frames are then on
//! top of the node where it was entered now.
//!
//! **Signals.** A handler's frames are a stack of their own, wherever they are in memory; it begins
//! on top of the interrupted node, and its end brings back what it interrupted, untouched. If it is
//! left by a jump into what it interrupted, it is forgotten.
use crate::hash::NumberMap;
use memtrail_model::{Flow, Thread};
use std::collections::BTreeMap;

/// How far outside what was seen of the stack in use the stack pointer may go.
pub const NEAR: u64 = 64 << 10;
/// How far outside what was seen of a stack it may be when the stack is used again: less than what
/// the kernel puts between a handler and what it interrupts.
pub const RESUME: u64 = 512;
/// Stacks of a thread that are remembered at most; beyond that the older half is forgotten.
const STACKS: usize = 4096;
/// Frames of a stack at most: calls beyond belong to their caller.
const FRAMES: usize = 1 << 22;
/// Stacks that are looked at when one is searched for: more would have to lie within each other, or
/// be on top of each other.
const NESTED: usize = 8;
/// A new stack that is nearer below the old one is taken for a huge frame when it comes to being
/// left by a jump.
const HUGE: u64 = 1 << 20;

/// Call paths as a tree: see the module's head.
#[derive(Clone, Debug)]
pub struct Tree {
    nodes: Vec<Node>,
    edges: NumberMap<(u32, u64), u32>,
    limit: usize,
    cut_off: u64,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    parent: u32,
    /// The last edge that was followed from here, and where to: usually the next one, too.
    to: u32,
    edge: u64,
    site: u64,
}

impl Default for Tree {
    fn default() -> Tree {
        Tree::with_limit(Tree::LIMIT)
    }
}

impl Tree {
    pub const ROOT: u32 = 0;
    /// Nodes at most.
    pub const LIMIT: usize = 1 << 24;
    /// Sites from here on are no addresses: they stand for signal handlers.
    const SIGNALS: u64 = u64::MAX << 32;

    pub fn with_limit(limit: usize) -> Tree {
        let root = Node {
            parent: Tree::ROOT,
            to: Tree::ROOT,
            edge: u64::MAX,
            site: u64::MAX,
        };
        Tree {
            nodes: vec![root],
            edges: NumberMap::default(),
            limit,
            cut_off: 0,
        }
    }

    /// The edge of a signal's handler, as it stands among the sites of a path.
    pub const fn signal_site(number: u32) -> u64 {
        Tree::SIGNALS | (number & (u32::MAX >> 1)) as u64
    }

    /// The signal whose handler this site stands for, if it is no address.
    pub const fn signal_of(site: u64) -> Option<u32> {
        match site >= Tree::SIGNALS {
            true => Some(site as u32),
            false => None,
        }
    }

    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    pub fn is_empty(&self) -> bool {
        false
    }

    /// How often a call found the tree full.
    pub fn cut_off(&self) -> u64 {
        self.cut_off
    }

    /// Of the root: the root.
    pub fn parent(&self, node: u32) -> u32 {
        self.nodes.get(node as usize).map_or(Tree::ROOT, |n| n.parent)
    }

    /// The site that leads to a node from its parent; none of the root.
    pub fn site(&self, node: u32) -> Option<u64> {
        let known = self.nodes.get(node as usize).filter(|_| node != Tree::ROOT);
        known.map(|n| n.site)
    }

    /// The nodes from this one up, the root not included.
    pub fn upwards(&self, node: u32) -> impl Iterator<Item = u32> + '_ {
        let known = |&node: &u32| node != Tree::ROOT && (node as usize) < self.nodes.len();
        std::iter::successors(Some(node).filter(known), move |&n| {
            Some(self.parent(n)).filter(|&p| p != Tree::ROOT)
        })
    }

    /// The sites that lead to a node, the first call first.
    pub fn path(&self, node: u32) -> Vec<u64> {
        let mut sites: Vec<u64> = self.upwards(node).filter_map(|n| self.site(n)).collect();
        sites.reverse();
        sites
    }

    /// Where a call leads to.
    #[inline]
    pub fn call(&mut self, from: u32, site: u64) -> u32 {
        let node = &self.nodes[from as usize];
        if node.edge == site && site != u64::MAX {
            return node.to;
        }
        self.call_anew(from, site)
    }

    fn call_anew(&mut self, from: u32, site: u64) -> u32 {
        let to = match self.edges.get(&(from, site)) {
            Some(&known) => known,
            None => {
                let Some(to) = self.make(from, site) else {
                    self.cut_off += 1;
                    return from;
                };
                self.edges.insert((from, site), to);
                to
            }
        };
        let node = &mut self.nodes[from as usize];
        (node.edge, node.to) = (site, to);
        to
    }

    fn make(&mut self, from: u32, site: u64) -> Option<u32> {
        let on_path = self.upwards(from).find(|&n| self.nodes[n as usize].site == site);
        if on_path.is_some() {
            return on_path;
        }
        let made = self.nodes.len();
        if made >= self.limit.min(u32::MAX as usize) {
            return None;
        }
        self.nodes.push(Node {
            parent: from,
            to: Tree::ROOT,
            edge: u64::MAX,
            site,
        });
        Some(made as u32)
    }
}

#[derive(Clone, Copy, Debug)]
struct Frame {
    slot: u64,
    node: u32,
}

/// How a stack came to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Origin {
    /// The thread began on it.
    Thread,
    /// The stack pointer was set to it, when this one was in use.
    Switch { from: u64 },
    /// A handler, which interrupted that stack.
    Signal { interrupted: u64 },
}

impl Origin {
    /// The stack that was in use before.
    fn before(self) -> Option<u64> {
        match self {
            Origin::Thread => None,
            Origin::Switch { from: before } | Origin::Signal { interrupted: before } => Some(before),
        }
    }

    fn is_switch(self) -> bool {
        matches!(self, Origin::Switch { .. })
    }
}

/// One stack, the innermost frame last: slots fall.
#[derive(Clone, Debug)]
struct Stack {
    /// Never used again for another one.
    serial: u64,
    frames: Vec<Frame>,
    /// What its first frame is on top of.
    base: u32,
    origin: Origin,
    /// What was seen of it. Nothing yet if `high` is 0.
    last: u64,
    high: u64,
    /// When it was left.
    left: u64,
}

impl Stack {
    fn new(serial: u64, base: u32, origin: Origin) -> Stack {
        Stack {
            serial,
            frames: Vec::new(),
            base,
            origin,
            last: 0,
            high: 0,
            left: 0,
        }
    }

    fn node(&self) -> u32 {
        self.frames.last().map_or(self.base, |frame| frame.node)
    }

    /// The stack pointer was here.
    #[inline]
    fn saw(&mut self, at: u64) {
        self.last = at;
        self.high = self.high.max(at);
    }

    /// Drops the frames whose slot is below; how many there were.
    #[inline]
    fn drop_below(&mut self, bound: u64) -> usize {
        let before = self.frames.len();
        while self.frames.last().is_some_and(|frame| frame.slot < bound) {
            self.frames.pop();
        }
        before - self.frames.len()
    }

    /// Drops what is below the frame with this slot, if there is one.
    #[inline]
    fn drop_to(&mut self, slot: u64) -> bool {
        let frames = self.frames.iter().rposition(|frame| frame.slot >= slot);
        let there = frames.filter(|&at| self.frames[at].slot == slot);
        there.map(|at| self.frames.truncate(at + 1)).is_some()
    }

    fn reaches(&self, rsp: u64, slack: u64) -> bool {
        self.high != 0 && rsp >= self.last.saturating_sub(slack) && rsp <= self.high.saturating_add(slack)
    }
}

#[derive(Clone, Debug)]
struct ThreadCalls {
    current: Stack,
    /// Stacks that were left, by `high`.
    aside: BTreeMap<u64, Stack>,
    /// Handlers on which nothing was seen and which were interrupted themselves have no place yet.
    unplaced: Vec<Stack>,
    serials: u64,
}

impl Default for ThreadCalls {
    fn default() -> ThreadCalls {
        ThreadCalls {
            current: Stack::new(0, Tree::ROOT, Origin::Thread),
            aside: BTreeMap::new(),
            unplaced: Vec::new(),
            serials: 0,
        }
    }
}

impl ThreadCalls {
    fn fresh(&mut self, base: u32, origin: Origin) -> Stack {
        self.serials += 1;
        Stack::new(self.serials, base, origin)
    }

    /// Puts the stack in use aside and goes on with another one.
    fn switch_to(&mut self, next: Stack) -> Stack {
        std::mem::replace(&mut self.current, next)
    }

    /// Remembers a stack that was left.
    fn keep(&mut self, mut stack: Stack) {
        self.serials += 1;
        stack.left = self.serials;
        if stack.high == 0 {
            self.unplaced.push(stack);
            self.unplaced.drain(..self.unplaced.len().saturating_sub(NESTED));
            return;
        }
        self.aside.insert(stack.high, stack);
        if self.aside.len() > STACKS {
            let mut ages: Vec<u64> = self.aside.values().map(|stack| stack.left).collect();
            let (_, &mut middle, _) = ages.select_nth_unstable(STACKS / 2);
            self.aside.retain(|_, stack| stack.left >= middle);
        }
    }

    /// Takes the stack with this serial number back.
    fn take(&mut self, serial: u64) -> Option<Stack> {
        if let Some(at) = self.unplaced.iter().position(|stack| stack.serial == serial) {
            return Some(self.unplaced.remove(at));
        }
        let high = self.aside.values().find(|stack| stack.serial == serial)?.high;
        self.aside.remove(&high)
    }

    fn stack_pointer(&mut self, rsp: u64) {
        if self.current.last <= rsp && rsp - self.current.last < NEAR && self.aside.is_empty() && self.current.high != 0
        {
            self.current.saw(rsp);
            self.current.drop_below(rsp);
            return;
        }
        let distance = |stack: &Stack| rsp.abs_diff(stack.last);
        let from_here_up = self.aside.range(rsp.saturating_sub(RESUME)..);
        // Of a handler on which nothing was seen yet it is not known where it is: perhaps right
        // below what it interrupted.
        let slack = if self.current.high == 0 { 0 } else { RESUME };
        let reaching = from_here_up.take(NESTED).filter(|(_, stack)| stack.reaches(rsp, slack));
        let nearest = reaching.min_by_key(|(_, stack)| distance(stack));
        // Nothing is known yet of where a handler or a thread begins.
        let here = self.current.high == 0 || self.current.reaches(rsp, NEAR);
        let nearer = |stack: &Stack| self.current.high == 0 || distance(stack) < distance(&self.current);
        let other = nearest.filter(|(_, stack)| !here || nearer(stack));
        if let Some(high) = other.map(|(&high, _)| high) {
            self.come_back(high, rsp);
        } else if !here {
            let from = self.current.serial;
            let mut next = self.fresh(self.current.node(), Origin::Switch { from });
            next.saw(rsp);
            let left = self.switch_to(next);
            self.leave(left);
        } else {
            self.current.saw(rsp);
            self.current.drop_below(rsp);
        }
    }

    fn leave(&mut self, left: Stack) {
        if !left.frames.is_empty() || !left.origin.is_switch() {
            self.keep(left);
        }
    }

    /// On with a stack that was left.
    fn come_back(&mut self, high: u64, rsp: u64) {
        let Some(mut next) = self.aside.remove(&high) else {
            return;
        };
        let was_at = next.last;
        let dropped = next.drop_below(rsp);
        next.saw(rsp);
        let left = self.switch_to(next);
        let since = self.since(&left);
        let jumped_out = since.iter().any(|stack| !stack.0.is_switch());
        let huge_frame = since
            .last()
            .is_some_and(|&(_, high)| high < was_at && was_at - high < HUGE);
        if jumped_out || !since.is_empty() && dropped > usize::from(!huge_frame) {
            // All but the last came from one that goes, too.
            for (origin, _) in since.iter().rev().skip(1) {
                origin.before().and_then(|serial| self.take(serial));
            }
            return;
        }
        if self.current.frames.is_empty() && self.current.origin.is_switch() {
            self.current.base = left.node();
        }
        self.leave(left);
    }

    /// The stacks that came to be one on top of the other since the one in use now was left, up to
    /// the one that is left now: origins, and where they begin. Nothing if the one did not lead to
    /// the other.
    fn since(&self, left: &Stack) -> Vec<(Origin, u64)> {
        let mut since = vec![(left.origin, left.high)];
        while let Some(before) = since.last().and_then(|stack| stack.0.before()) {
            if before == self.current.serial {
                return since;
            }
            let stacks = self.aside.values().chain(&self.unplaced);
            match stacks.into_iter().find(|stack| stack.serial == before) {
                Some(stack) if since.len() < NESTED => since.push((stack.origin, stack.high)),
                _ => break,
            }
        }
        Vec::new()
    }

    fn signal_return(&mut self) {
        let Origin::Signal { interrupted } = self.current.origin else {
            return;
        };
        if let Some(next) = self.take(interrupted) {
            self.current = next;
        }
    }
}

/// The call paths of all threads.
#[derive(Clone, Debug, Default)]
pub struct Calls {
    tree: Tree,
    threads: Vec<ThreadCalls>,
}

impl Calls {
    pub fn new() -> Calls {
        Calls::default()
    }

    /// With another limit of nodes than [`Tree::LIMIT`].
    pub fn with_limit(nodes: usize) -> Calls {
        Calls {
            tree: Tree::with_limit(nodes),
            threads: Vec::new(),
        }
    }

    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// The sites that lead to a node, the first call first.
    pub fn path(&self, node: u32) -> Vec<u64> {
        self.tree.path(node)
    }

    /// Where a thread is: before its first event, at the root.
    pub fn node(&self, thread: Thread) -> u32 {
        let known = self.threads.get(thread.0 as usize);
        known.map_or(Tree::ROOT, |calls| calls.current.node())
    }

    /// The thread begins anew, in another program: nothing of what it was in is left.
    pub fn begins(&mut self, thread: Thread) {
        if let Some(calls) = self.threads.get_mut(thread.0 as usize) {
            *calls = ThreadCalls::default();
        }
    }

    /// Whether anything was told of this thread.
    pub fn knows(&self, thread: Thread) -> bool {
        let known = self.threads.get(thread.0 as usize);
        known.is_some_and(|calls| calls.current.high != 0 || calls.serials > 0)
    }

    /// What a thread did; returns the node where it is now.
    pub fn flows(&mut self, thread: Thread, flow: Flow) -> u32 {
        let at = thread.0 as usize;
        if self.threads.len() <= at {
            self.threads.resize_with(at + 1, ThreadCalls::default);
        }
        let calls = &mut self.threads[at];
        match flow {
            Flow::Call { site, slot, .. } => {
                if calls.current.high != 0 && !calls.current.reaches(slot, NEAR) {
                    calls.stack_pointer(slot.saturating_add(8));
                }
                let stack = &mut calls.current;
                stack.drop_below(slot.saturating_add(1));
                stack.saw(slot.saturating_add(8));
                stack.last = slot;
                if stack.frames.len() < FRAMES {
                    let node = self.tree.call(stack.node(), site);
                    stack.frames.push(Frame { slot, node });
                }
            }
            Flow::Return { slot } => {
                let had = calls.current.drop_to(slot);
                if !had {
                    calls.stack_pointer(slot);
                }
                calls.current.drop_below(slot.saturating_add(1));
                calls.current.saw(slot.saturating_add(8));
            }
            Flow::Stack { rsp } => calls.stack_pointer(rsp),
            Flow::Signal { number } => {
                let node = self.tree.call(calls.current.node(), Tree::signal_site(number));
                let interrupted = calls.current.serial;
                let next = calls.fresh(node, Origin::Signal { interrupted });
                let left = calls.switch_to(next);
                calls.keep(left);
            }
            Flow::SignalReturn => calls.signal_return(),
            Flow::ThreadPointer { .. } => {}
        }
        calls.current.node()
    }
}

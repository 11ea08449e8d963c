//! Loops and their nesting, from the control flow that was executed.
//!
//! **Input.** Stretches of code that were executed from their start (`Block`; they may overlap and may be left before their end), branches that were taken ([`Edge`]: from the branching instruction to
//! where it went) and the entries of functions. Calls and returns are not among the edges, but a call that came back is one, from the call instruction to the one after it.
//!
//! **Graph.** Code is cut where an edge or a block begins or ends, and after each branching instruction; the cut right after a branch is made one byte behind its first, because its length is not
//! known: no other instruction begins there. Neighbouring parts of a block are connected: that is the way past a branch that was not taken. Edges to the entry of a function from outside of it are
//! tail calls and left out. A *function* is what can be reached from its entry without passing another entry; code that no entry leads to is a function of its own from its lowest address on.
//!
//! **Loops** are the strongly connected regions of a function, those inside once the edges to the header are taken away, and so on. If a region has one entry, which then dominates it, that is the loop's
//! *header*, and the loop is the natural loop of all back edges to it: loops with the same header are one. If it has several entries it is *irreducible*, and its header is the
//! one with the lowest number in a depth-first search from the function's entry. This gives the nesting without a dominator tree and deals with irreducible code in the same way (Steensgaard's forest).
mod graph;

use graph::{Function, Graph};
use std::collections::BTreeMap;

/// A branch that was taken.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Edge {
    /// Address of the branching instruction.
    pub from: u64,
    pub to: u64,
    pub times: u64,
}

/// Code that was executed from its start on.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Block {
    pub start: u64,
    /// The first address behind it.
    pub end: u64,
}

/// A loop.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Loop {
    /// Where it begins.
    pub header: u64,
    /// Entry of the function it is in.
    pub function: u64,
    /// The loop around it.
    pub parent: Option<u32>,
    /// 0 for one that is in no other.
    pub depth: u32,
    /// Its code, in ascending order, inner loops included: from and to (not included).
    pub ranges: Vec<(u64, u64)>,
    /// It can be entered elsewhere than at its header.
    pub irreducible: bool,
    /// How often a branch led from outside to somewhere in it; ways in past a branch that was not taken, or by falling through, are not counted.
    pub entered: u64,
    /// How often a branch in it led back to its header.
    pub repeated: u64,
}

/// Loops of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scopes {
    loops: Vec<Loop>,
    /// By start: end, and the innermost loop.
    places: BTreeMap<u64, (u64, u32)>,
}

impl Scopes {
    pub fn new(blocks: &[Block], edges: &[Edge], entries: &[u64]) -> Scopes {
        let graph = Graph::new(blocks, edges);
        let mut scopes = Scopes::default();
        for function in graph.functions(entries) {
            scopes.find_loops(&graph, &function);
        }
        scopes
    }

    /// Loops; those around others come before them.
    pub fn loops(&self) -> &[Loop] {
        &self.loops
    }

    /// The innermost loop that has this instruction.
    pub fn innermost(&self, pc: u64) -> Option<u32> {
        let (_, &(end, innermost)) = self.places.range(..=pc).next_back()?;
        (pc < end).then_some(innermost)
    }

    /// This loop and those around it.
    pub fn outwards(&self, innermost: u32) -> impl Iterator<Item = u32> + '_ {
        let parent = |&at: &u32| self.loops.get(at as usize).and_then(|l| l.parent);
        std::iter::successors(Some(innermost), parent)
    }

    fn find_loops(&mut self, graph: &Graph, function: &Function) {
        let mut regions = vec![(function.parts.clone(), None)];
        while let Some((region, parent)) = regions.pop() {
            for cycle in graph.cycles(&region) {
                let number = self.loops.len() as u32;
                let header = self.add_loop(graph, function, &cycle, parent);
                let inside = cycle.into_iter().filter(|&part| part != header).collect();
                regions.push((inside, Some(number)));
            }
        }
    }

    /// Adds the loop that a strongly connected region is; returns its header.
    fn add_loop(&mut self, graph: &Graph, function: &Function, cycle: &[usize], parent: Option<u32>) -> usize {
        let within: std::collections::HashSet<usize> = cycle.iter().copied().collect();
        let (mut entered, mut entries) = (0, Vec::new());
        if within.contains(&function.parts[0]) {
            entries.push(function.parts[0]);
        }
        for &part in &function.parts {
            for &(to, times) in graph.next(part) {
                if !within.contains(&part) && within.contains(&to) {
                    entered += times;
                    entries.push(to);
                }
            }
        }
        entries.sort_unstable_by_key(|&part| function.number(part));
        entries.dedup();
        let header = entries.first().copied().unwrap_or(cycle[0]);
        let back = cycle.iter().flat_map(|&part| graph.next(part));
        let repeated = back.filter(|&&(to, _)| to == header).map(|&(_, times)| times).sum();
        let number = self.loops.len() as u32;
        let mut ranges: Vec<(u64, u64)> = cycle.iter().map(|&part| graph.range(part)).collect();
        for &(start, end) in &ranges {
            self.places.insert(start, (end, number));
        }
        self.loops.push(Loop {
            header: graph.range(header).0,
            function: function.entry,
            parent,
            depth: parent.map_or(0, |outer| self.loops[outer as usize].depth + 1),
            ranges: joined(&mut ranges),
            irreducible: entries.len() > 1,
            entered,
            repeated,
        });
        header
    }
}

/// Ranges that touch are one.
fn joined(ranges: &mut [(u64, u64)]) -> Vec<(u64, u64)> {
    ranges.sort_unstable();
    let mut joined: Vec<(u64, u64)> = Vec::new();
    for &mut (start, end) in ranges {
        match joined.last_mut() {
            Some(last) if last.1 == start => last.1 = end,
            _ => joined.push((start, end)),
        }
    }
    joined
}

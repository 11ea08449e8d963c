//! Loops and their nesting, from the control flow that was executed.
//!
//! **Input.** The ways that control took ([`Edge`]: a stretch of instructions that ran from its
//! start to its end, and where it went from there). Stretches may overlap and may be left at
//! different ends.
//!
//! **Graph.** Code is cut where a stretch begins or ends and where an edge goes. Neighbouring parts
//! of a stretch are connected: that is the way past a branch that was not taken. A call is a way to
//! what is behind it, if that was executed; returns lead nowhere. A *function* is what can be
//! reached from its entry without passing another entry, where entries are what was called and what
//! the caller knows of: a jump to the entry of another function is a tail call. Code that no entry
//! leads to is a function of its own from its lowest address on.
//!
//! **Loops** are the strongly connected regions of a function, those inside once the header is
//! taken away, and so on. If a region has one entry, which then dominates it, that is the loop's
//! *header*, and the loop is the natural loop of all back edges to it: loops with the same header
//! are one. If it has several entries it is *irreducible*, and its header is the one that a
//! depth-first search from the function's entry comes to first. This gives the nesting without a
//! dominator tree and deals with irreducible code in the same way (Steensgaard's forest).
mod graph;

use graph::{Function, Graph};
use memtrail_model::Edge;
use std::collections::{BTreeMap, BTreeSet};

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
}

/// Loops of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scopes {
    loops: Vec<Loop>,
    /// By start: end, and the innermost loop.
    places: BTreeMap<u64, (u64, u32)>,
}

impl Scopes {
    /// From the ways that control took, in any order, and entries of functions besides those that
    /// were called.
    pub fn new(edges: &[Edge], entries: &[u64]) -> Scopes {
        let (graph, called) = Graph::new(edges);
        let entries: BTreeSet<u64> = called.into_iter().chain(entries.iter().copied()).collect();
        let mut scopes = Scopes::default();
        for function in graph.functions(&entries) {
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
        let within: BTreeSet<usize> = cycle.iter().copied().collect();
        let outside = function.parts.iter().filter(|part| !within.contains(part));
        let ways_in = outside.flat_map(|&part| graph.next(part)).copied();
        let ways_in = ways_in.chain([function.parts[0]]).filter(|part| within.contains(part));
        let entries: BTreeSet<(usize, usize)> = ways_in.map(|part| (function.number(part), part)).collect();
        let header = entries.first().map_or(cycle[0], |&(_, part)| part);
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

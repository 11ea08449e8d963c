//! The executed control flow as a graph of parts of code.
use crate::hash::NumberMap;
use memtrail_model::{Edge, Via};
use std::collections::BTreeSet;

pub(super) struct Graph {
    /// By address: from, to (not included).
    parts: Vec<(u64, u64)>,
    /// By part: where to.
    next: Vec<Vec<usize>>,
}

/// A function's parts in the order of a depth-first search, the entry first.
pub(super) struct Function {
    pub entry: u64,
    pub parts: Vec<usize>,
    numbers: NumberMap<usize, usize>,
}

impl Function {
    /// Its place in that order.
    pub fn number(&self, part: usize) -> usize {
        self.numbers.get(&part).copied().unwrap_or(usize::MAX)
    }
}

impl Graph {
    /// And the entries of functions that were called.
    pub fn new(edges: &[Edge]) -> (Graph, BTreeSet<u64>) {
        let ran = |edge: &&Edge| edge.start < edge.end;
        let mut stretches: Vec<(u64, u64)> = edges.iter().filter(ran).map(|e| (e.start, e.end)).collect();
        stretches.sort_unstable();
        let cuts: BTreeSet<u64> = edges.iter().flat_map(|e| [e.start, e.end, e.target]).collect();
        let cuts: Vec<u64> = cuts.into_iter().collect();

        let mut graph = Graph {
            parts: Vec::new(),
            next: Vec::new(),
        };
        let mut waiting = stretches.into_iter().peekable();
        // The end of the code that began before.
        let mut reach = 0;
        for pair in cuts.windows(2) {
            let (start, end) = (pair[0], pair[1]);
            let goes_on = reach > start;
            while let Some((_, until)) = waiting.next_if(|stretch| stretch.0 <= start) {
                reach = reach.max(until);
            }
            if reach > start {
                let part = graph.parts.len();
                if goes_on {
                    graph.next[part - 1].push(part);
                }
                graph.parts.push((start, end));
                graph.next.push(Vec::new());
            }
        }
        for edge in edges {
            let to = match edge.via {
                Via::Jump => edge.target,
                Via::Call => edge.end,
                Via::Return => continue,
            };
            if let (Some(from), Some(to)) = (graph.part(edge.last), graph.part(to)) {
                graph.next[from].push(to);
            }
        }
        for next in &mut graph.next {
            next.sort_unstable();
            next.dedup();
        }
        let calls = edges.iter().filter(|edge| edge.via == Via::Call);
        (graph, calls.map(|edge| edge.target).collect())
    }

    pub fn range(&self, part: usize) -> (u64, u64) {
        self.parts[part]
    }

    pub fn next(&self, part: usize) -> &[usize] {
        &self.next[part]
    }

    fn part(&self, addr: u64) -> Option<usize> {
        let at = self.parts.partition_point(|part| part.0 <= addr).checked_sub(1)?;
        (addr < self.parts[at].1).then_some(at)
    }

    /// Every part is in one function.
    pub fn functions(&self, entries: &BTreeSet<u64>) -> Vec<Function> {
        let begins = |&entry: &u64| self.part(entry).filter(|&part| self.parts[part].0 == entry);
        let entries: BTreeSet<usize> = entries.iter().filter_map(begins).collect();
        let mut taken = vec![false; self.parts.len()];
        let known = entries.iter().copied();
        let mut functions = Vec::new();
        for first in known.chain(0..self.parts.len()) {
            if !taken[first] {
                functions.push(self.function(first, &entries, &mut taken));
            }
        }
        functions
    }

    fn function(&self, first: usize, entries: &BTreeSet<usize>, taken: &mut [bool]) -> Function {
        let mut function = Function {
            entry: self.parts[first].0,
            parts: Vec::new(),
            numbers: NumberMap::default(),
        };
        let mut waiting = vec![first];
        while let Some(part) = waiting.pop() {
            if taken[part] || (part != first && entries.contains(&part)) {
                continue;
            }
            taken[part] = true;
            function.numbers.insert(part, function.parts.len());
            function.parts.push(part);
            waiting.extend(self.next[part].iter().rev());
        }
        function
    }

    /// The strongly connected regions among these parts: those in which something leads back to
    /// where it came from. In the order of the first of their parts in the list.
    pub fn cycles(&self, parts: &[usize]) -> Vec<Vec<usize>> {
        let place: NumberMap<usize, usize> = parts.iter().enumerate().map(|(at, &part)| (part, at)).collect();
        let next = |at: usize| self.next[parts[at]].iter().filter_map(|to| place.get(to).copied());
        let follows: Vec<Vec<usize>> = (0..parts.len()).map(|at| next(at).collect()).collect();
        let mut regions: Vec<Vec<usize>> = strongly_connected(&follows);
        regions.retain(|region| region.len() > 1 || follows[region[0]].contains(&region[0]));
        for region in &mut regions {
            region.sort_unstable();
        }
        regions.sort_unstable();
        let named = |region: Vec<usize>| region.into_iter().map(|at| parts[at]).collect();
        regions.into_iter().map(named).collect()
    }
}

/// Tarjan's algorithm, with a stack of its own: code can be long.
fn strongly_connected(next: &[Vec<usize>]) -> Vec<Vec<usize>> {
    const UNSEEN: usize = usize::MAX;
    let mut number = vec![UNSEEN; next.len()];
    let mut low = vec![0; next.len()];
    let mut open = vec![false; next.len()];
    let (mut stack, mut found, mut count) = (Vec::new(), Vec::new(), 0);
    for root in 0..next.len() {
        if number[root] != UNSEEN {
            continue;
        }
        // A node, and how many of its edges have been followed.
        let mut visits = vec![(root, 0)];
        while let Some((node, followed)) = visits.pop() {
            if followed == 0 {
                (number[node], low[node], open[node]) = (count, count, true);
                count += 1;
                stack.push(node);
            } else {
                low[node] = low[node].min(low[next[node][followed - 1]]);
            }
            let rest = next[node][followed..].iter();
            let mut descend = None;
            for (at, &to) in rest.enumerate() {
                if number[to] == UNSEEN {
                    descend = Some((to, followed + at + 1));
                    break;
                }
                if open[to] {
                    low[node] = low[node].min(number[to]);
                }
            }
            if let Some((to, followed)) = descend {
                visits.push((node, followed));
                visits.push((to, 0));
            } else if low[node] == number[node] {
                let from = stack.iter().rposition(|&n| n == node).unwrap_or(0);
                let region: Vec<usize> = stack.split_off(from);
                region.iter().for_each(|&n| open[n] = false);
                found.push(region);
            }
        }
    }
    found
}

//! Which lists a sweep needs.
//!
//! LRU configurations of the same line and number of sets share a list, as deep as the greatest of
//! their ways; FIFO configurations have one each. Lists with the same line and the same odd part of
//! the number of sets make a chain, chains make groups that can share the numbers of their pages.
use super::SweepConfig;
use crate::config::Policy;

/// The lists of one number of sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Logarithm of the line's bytes.
    pub line: u32,
    pub sets: u64,
    pub ways: u32,
    pub fifo: bool,
    /// Configurations that get their misses here: number and ways.
    pub wanted: Vec<(usize, u32)>,
}

impl Node {
    /// What it costs, roughly: in passes through a list of eight.
    fn weight(&self) -> u64 {
        1 + u64::from(self.ways) / 16
    }

    /// Logarithm, rounded down, of the distance at which addresses come back to a set.
    fn period(&self) -> u32 {
        self.line + self.sets.ilog2()
    }
}

/// Lists that can be dealt with one after the other, by ascending numbers of sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainPlan {
    pub line: u32,
    pub nodes: Vec<Node>,
}

impl ChainPlan {
    pub fn is_lru(&self) -> bool {
        self.nodes.iter().all(|node| !node.fifo)
    }
}

/// Chains with common pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupPlan {
    /// Logarithm of a page's bytes: no chain's lines are longer, none comes back to a set sooner.
    pub page: u32,
    /// Logarithm of the longest line.
    longest: u32,
    pub chains: Vec<ChainPlan>,
}

/// The lists that all the configurations need: those of a chain in a row, in order.
pub fn nodes(configs: &[SweepConfig]) -> Vec<Node> {
    let mut nodes: Vec<Node> = Vec::new();
    for (i, config) in configs.iter().enumerate() {
        let node = Node {
            line: config.line.ilog2(),
            sets: config.sets(),
            ways: config.ways,
            fifo: config.policy == Policy::Fifo,
            wanted: vec![(i, config.ways)],
        };
        let same = |other: &&mut Node| {
            let place = (other.line, other.sets, other.fifo) == (node.line, node.sets, node.fifo);
            place && (!node.fifo || node.ways == other.ways)
        };
        match nodes.iter_mut().find(same) {
            Some(other) => {
                other.ways = other.ways.max(node.ways);
                other.wanted.extend(node.wanted);
            }
            None => nodes.push(node),
        }
    }
    nodes.sort_by_key(|node| (node.line, node.sets >> node.sets.trailing_zeros(), node.sets, node.fifo));
    nodes
}

/// Puts lists together.
pub fn groups(nodes: &[Node]) -> Vec<GroupPlan> {
    let of_chain = |node: &Node| (node.line, node.sets >> node.sets.trailing_zeros());
    let mut groups: Vec<GroupPlan> = Vec::new();
    for chain in nodes.chunk_by(|a, b| of_chain(a) == of_chain(b)) {
        let plan = ChainPlan {
            line: chain[0].line,
            nodes: chain.to_vec(),
        };
        let page = chain[0].period();
        let fits = |group: &&mut GroupPlan| page.min(group.page) >= plan.line.max(group.longest);
        match groups.iter_mut().find(fits) {
            Some(group) => {
                group.page = group.page.min(page);
                group.longest = group.longest.max(plan.line);
                group.chains.push(plan);
            }
            None => groups.push(GroupPlan {
                page,
                longest: plan.line,
                chains: vec![plan],
            }),
        }
    }
    groups
}

/// Divides lists among `workers`, about evenly; fewer if there are not enough lists.
pub fn divide(nodes: Vec<Node>, workers: usize) -> Vec<Vec<Node>> {
    let all: u64 = nodes.iter().map(Node::weight).sum();
    let mut shares: Vec<Vec<Node>> = vec![Vec::new(); workers.max(1)];
    let mut before = 0;
    for node in nodes {
        let weight = node.weight();
        let share = (before + weight / 2) * shares.len() as u64 / all;
        before += weight;
        shares[share as usize].push(node);
    }
    shares.retain(|share| !share.is_empty());
    shares
}

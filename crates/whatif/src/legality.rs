//! Whether accesses may be made in another order: by what this run did.
//!
//! **Rule.** Each location has a *version*: how often it was written before. An order is legal if
//! every access meets the same version of what it touches as in the program's own order. Then each
//! read gets what the same write wrote (flow dependences hold), no write overtakes a read of what
//! it overwrites (anti-dependences), and writes of one location keep their order (output
//! dependences). This is exact for the run, and says nothing of other inputs.
//!
//! **Private scalars.** A reference that touches one and the same stack location in the whole
//! window (a loop counter or an accumulator that a compiler kept in memory) would forbid any other
//! order; the rewritten loop has its own. Such references are left out.
//!
//! **Registers are not seen.** A value that a register carries from one iteration to the next is no
//! access. What is carried in practice is an accumulator or an induction variable, which another
//! order can have too; so the verdict is "legal as far as memory shows".
use crate::capture::{Captured, Window};
use crate::order::Order;
use memtrail_model::Kind;
use std::collections::{HashMap, HashSet};

/// The first dependence that an order breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The number of the access that meets another version.
    pub access: u32,
    pub address: u64,
}

/// How locations are told apart: the size of the smallest access.
fn granule(accesses: &[Captured]) -> u64 {
    let smallest = accesses.iter().map(|a| u64::from(a.access.size.max(1))).min();
    let smallest = smallest.unwrap_or(1).min(8);
    match smallest.is_power_of_two() {
        true => smallest,
        false => 1,
    }
}

/// References that touch one location and nothing else, and that on a stack, by reference point.
pub fn private(window: &Window, on_stack: impl Fn(u32) -> bool) -> HashSet<u32> {
    let mut seen: HashMap<u32, Option<u64>> = HashMap::new();
    for captured in &window.accesses {
        let access = &captured.access;
        let only = seen.entry(access.point.0).or_insert(Some(access.addr));
        *only = only.filter(|&addr| addr == access.addr);
    }
    let scalars = seen.into_iter().filter(|(_, only)| only.is_some());
    scalars
        .map(|(point, _)| point)
        .filter(|&point| on_stack(point))
        .collect()
}

/// The version of each location that each access meets when accesses are made in this sequence.
fn versions(window: &Window, sequence: &[u32], private: &HashSet<u32>, granule: u64) -> Vec<u64> {
    let mut writes: HashMap<u64, u32> = HashMap::new();
    let mut met = vec![0u64; window.accesses.len()];
    for &number in sequence {
        let access = &window.accesses[number as usize].access;
        if private.contains(&access.point.0) {
            continue;
        }
        let end = access.addr.saturating_add(u64::from(access.size.max(1)) - 1);
        // An access may touch several locations: their versions are mixed into one number.
        let mut mixed = 0u64;
        for location in access.addr / granule..=end / granule {
            let version = writes.entry(location).or_default();
            mixed = mixed.rotate_left(7).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(*version);
            *version += u32::from(access.kind == Kind::Write);
        }
        met[number as usize] = mixed;
    }
    met
}

/// Whether this order keeps all dependences of the window.
pub fn check(window: &Window, order: &Order, private: &HashSet<u32>) -> Result<(), Broken> {
    let granule = granule(&window.accesses);
    let own: Vec<u32> = (0..window.accesses.len() as u32).collect();
    let before = versions(window, &own, private, granule);
    let after = versions(window, &order.sequence(window), private, granule);
    let differs = before.iter().zip(&after).position(|(a, b)| a != b);
    match differs {
        None => Ok(()),
        Some(at) => Err(Broken {
            access: at as u32,
            address: window.accesses[at].access.addr,
        }),
    }
}

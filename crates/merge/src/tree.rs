//! A reduction on a radix tree, over any transport.
//!
//! In step `s` (0, 1, …) those whose number is a multiple of 2^(s+1) take what the one 2^s above
//! them has and merge it with their own; the others give theirs away and are done. After
//! ⌈log2 N⌉ steps the first has everything. Any N will do: who has no partner goes on alone.
//!
//! A partner may die. What its side of the tree had is then asked for one by one: whatever had been
//! given to the dead one is still with the transport.

/// How parts travel.
pub trait Transport {
    type Part;
    type Error;
    /// Gives a part to another member. Does not wait for it.
    fn send(&mut self, part: Self::Part, to: u32) -> Result<(), Self::Error>;
    /// What a member gives away; waits for it. `None` if it died before it did.
    fn receive(&mut self, from: u32) -> Result<Option<Self::Part>, Self::Error>;
}

/// Steps of the tree for `members` members: the logarithm, rounded up.
pub fn steps(members: u32) -> u32 {
    u32::BITS - members.saturating_sub(1).leading_zeros()
}

/// What member `me` does in each step until it gives its part away: whom it receives from. And whom
/// it gives its part to then; nobody, if it is the first.
pub fn partners(me: u32, members: u32) -> (Vec<u32>, Option<u32>) {
    let mut from = Vec::new();
    for step in 0..steps(members) {
        let distance = 1 << step;
        if me & distance != 0 {
            return (from, Some(me - distance));
        }
        from.extend(Some(me + distance).filter(|&p| p < members));
    }
    (from, None)
}

/// What everybody who is part of the tree does. Returns the whole to the first, and nothing to the
/// others. `merge` gets its own part first; `lost` is told who died.
pub fn reduce<T: Transport>(
    transport: &mut T,
    me: u32,
    members: u32,
    mut part: T::Part,
    mut merge: impl FnMut(T::Part, T::Part) -> Result<T::Part, T::Error>,
    mut lost: impl FnMut(u32),
) -> Result<Option<T::Part>, T::Error> {
    let (from, to) = partners(me, members);
    for partner in from {
        part = take_over(transport, partner, members, part, &mut merge, &mut lost)?;
    }
    match to {
        Some(to) => transport.send(part, to).map(|()| None),
        None => Ok(Some(part)),
    }
}

/// Receives what a partner has; if it died, what those had that it would have received from.
fn take_over<T: Transport>(
    transport: &mut T,
    partner: u32,
    members: u32,
    mut part: T::Part,
    merge: &mut impl FnMut(T::Part, T::Part) -> Result<T::Part, T::Error>,
    lost: &mut impl FnMut(u32),
) -> Result<T::Part, T::Error> {
    if let Some(other) = transport.receive(partner)? {
        return merge(part, other);
    }
    lost(partner);
    for below in partners(partner, members).0 {
        part = take_over(transport, below, members, part, merge, lost)?;
    }
    Ok(part)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::convert::Infallible;

    /// Parts that were sent, by sender. Members run one after the other, the last first.
    #[derive(Default)]
    struct Desk(BTreeMap<u32, Vec<u32>>, u32);
    impl Transport for Desk {
        type Part = Vec<u32>;
        type Error = Infallible;
        fn send(&mut self, part: Vec<u32>, _to: u32) -> Result<(), Infallible> {
            self.0.insert(self.1, part);
            Ok(())
        }
        fn receive(&mut self, from: u32) -> Result<Option<Vec<u32>>, Infallible> {
            Ok(self.0.remove(&from))
        }
    }

    fn run(members: u32, dead: &[u32]) -> (Vec<u32>, Vec<u32>, usize) {
        let (mut desk, mut whole, mut lost, mut most) = (Desk::default(), vec![], vec![], 0);
        for me in (0..members).rev().filter(|m| !dead.contains(m)) {
            desk.1 = me;
            let mut merges = 0;
            let merge = |a: Vec<u32>, b: Vec<u32>| {
                merges += 1;
                Ok([a, b].concat())
            };
            let done = reduce(&mut desk, me, members, vec![me], merge, |m| lost.push(m)).unwrap();
            whole.extend(done.unwrap_or_default());
            most = most.max(merges);
        }
        (whole, lost, most)
    }

    #[test]
    fn everything_reaches_the_first_in_order() {
        for members in [1, 2, 3, 4, 5, 6, 7, 12, 16, 17, 256] {
            let (whole, lost, most) = run(members, &[]);
            assert_eq!(whole, (0..members).collect::<Vec<_>>());
            assert_eq!((lost, most), (vec![], steps(members) as usize));
        }
        assert_eq!([1, 2, 3, 4, 5, 8, 9].map(steps), [0, 1, 2, 2, 3, 3, 4]);
    }

    #[test]
    fn those_who_die_lose_only_their_own() {
        for dead in 1..12 {
            let (whole, lost, _) = run(12, &[dead]);
            let mut sorted = whole;
            sorted.sort_unstable();
            assert_eq!(sorted, (0..12).filter(|&m| m != dead).collect::<Vec<_>>());
            assert_eq!(lost, [dead]);
        }
        assert_eq!(run(8, &[4, 6]).0, [0, 1, 2, 3, 5, 7]);
    }
}

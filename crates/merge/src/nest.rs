//! Vectors as functions of their index.
//!
//! A vector is stored relative to its first element, which the caller keeps, as the shortest of
//! - a *nest*: `v[i] = Σ digitₖ(i) · strideₖ`, the digits being those of `i` in a mixed base. One
//!   level is an affine function; two are blocks, or rows and columns of a grid; three a cube;
//! - *segments*: stretches of equal stride, as block distributions have whose blocks are not all of
//!   one size;
//! - the distances from each element to the next, as they are.
use memtrail_descriptor::bytes::{put, unzigzag, zigzag};

/// A level of a nest: how many, and how far apart. The innermost comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Level {
    pub count: u64,
    pub stride: u64,
}

const NEST: u64 = 0;
const SEGMENTS: u64 = 1;
const PLAIN: u64 = 2;

/// The levels of a vector, if it is a nest; a vector of one element has none.
pub fn levels(values: &[u64]) -> Option<Vec<Level>> {
    let mut heads = values.to_vec();
    let mut levels = Vec::new();
    while heads.len() > 1 {
        let stride = heads[1].wrapping_sub(heads[0]);
        let count = affine_run(&heads);
        if count == 1 || heads.len() % count != 0 {
            return None;
        }
        let alike = |row: &[u64]| {
            let moved = |i: usize| row[0].wrapping_add(stride.wrapping_mul(i as u64));
            row.iter().enumerate().all(|(i, &v)| v == moved(i))
        };
        if !heads.chunks_exact(count).all(alike) {
            return None;
        }
        levels.push(Level {
            count: count as u64,
            stride,
        });
        heads = heads.chunks_exact(count).map(|row| row[0]).collect();
    }
    Some(levels)
}

/// Elements from the beginning on that keep one stride.
fn affine_run(values: &[u64]) -> usize {
    let Some([first, second]) = values.first_chunk::<2>() else {
        return values.len();
    };
    let stride = second.wrapping_sub(*first);
    let same = values.windows(2).take_while(|w| w[1].wrapping_sub(w[0]) == stride);
    1 + same.count()
}

/// Writes a vector less its first element.
pub fn encode(values: &[u64], out: &mut Vec<u8>) {
    put(out, values.len() as u64);
    if values.len() < 2 {
        return;
    }
    let nest = levels(values).map(|levels| nested(&levels));
    let others = [segments(values), plain(values)];
    let shortest = nest.into_iter().chain(others).min_by_key(Vec::len);
    out.extend(shortest.unwrap_or_default());
}

fn nested(levels: &[Level]) -> Vec<u8> {
    let mut out = vec![];
    put(&mut out, NEST);
    put(&mut out, levels.len() as u64);
    for level in levels {
        put(&mut out, level.count);
        put(&mut out, zigzag(level.stride));
    }
    out
}

fn segments(values: &[u64]) -> Vec<u8> {
    let mut out = vec![];
    put(&mut out, SEGMENTS);
    let (mut rest, mut last) = (values, values[0]);
    while !rest.is_empty() {
        let run = affine_run(rest);
        put(&mut out, run as u64);
        put(&mut out, zigzag(rest[0].wrapping_sub(last)));
        if run > 1 {
            put(&mut out, zigzag(rest[1].wrapping_sub(rest[0])));
        }
        last = rest[run - 1];
        rest = &rest[run..];
    }
    out
}

fn plain(values: &[u64]) -> Vec<u8> {
    let mut out = vec![];
    put(&mut out, PLAIN);
    values
        .windows(2)
        .for_each(|w| put(&mut out, zigzag(w[1].wrapping_sub(w[0]))));
    out
}

/// Takes a vector of at most `most` elements from the front of `from`; its first element is
/// `first`. `None` if that is not what stands there.
pub fn decode(from: &mut &[u8], first: u64, most: usize) -> Option<Vec<u64>> {
    let length = usize::try_from(take(from)?).ok().filter(|&l| l <= most)?;
    if length < 2 {
        return Some(vec![first; length]);
    }
    let values = match take(from)? {
        NEST => {
            let mut values = vec![first];
            for _ in 0..take(from)? {
                let (count, stride) = (usize::try_from(take(from)?).ok()?, unzigzag(take(from)?));
                let rows = values.len();
                if count == 0 || rows.checked_mul(count)? > length {
                    return None;
                }
                for row in 1..count {
                    let moved = stride.wrapping_mul(row as u64);
                    for i in 0..rows {
                        values.push(values[i].wrapping_add(moved));
                    }
                }
            }
            values
        }
        SEGMENTS => {
            let (mut values, mut last) = (Vec::new(), first);
            while values.len() < length {
                let run = usize::try_from(take(from)?).ok()?;
                last = last.wrapping_add(unzigzag(take(from)?));
                let stride = if run > 1 { unzigzag(take(from)?) } else { 0 };
                if run == 0 || run > length - values.len() {
                    return None;
                }
                values.extend((0..run as u64).map(|i| last.wrapping_add(stride.wrapping_mul(i))));
                last = last.wrapping_add(stride.wrapping_mul(run as u64 - 1));
            }
            values
        }
        PLAIN => {
            let (mut values, mut last) = (vec![first], first);
            for _ in 1..length {
                last = last.wrapping_add(unzigzag(take(from)?));
                values.push(last);
            }
            values
        }
        _ => return None,
    };
    (values.len() == length).then_some(values)
}

/// Takes a number from the front of `from`.
pub(crate) fn take(from: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = from.split_first()?;
        *from = rest;
        if shift == 63 && byte > 1 {
            return None;
        }
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(values: &[u64]) -> usize {
        let mut out = vec![];
        encode(values, &mut out);
        let mut rest = out.as_slice();
        assert_eq!(
            decode(&mut rest, values.first().copied().unwrap_or(0), values.len()).as_deref(),
            Some(values)
        );
        assert!(rest.is_empty());
        for cut in 0..out.len() {
            assert_eq!(decode(&mut &out[..cut], 0, values.len()), None);
        }
        out.len()
    }

    #[test]
    fn a_grid_of_any_size_is_a_nest_of_its_dimensions() {
        let cube = |n: u64| {
            let at = |i: u64| 7 + 8 * (i % n) + 4096 * (i / n % n) + (1 << 30) * (i / n / n);
            (0..n * n * n).map(at).collect::<Vec<u64>>()
        };
        assert_eq!(levels(&cube(3)).map(|l| l.len()), Some(3));
        assert_eq!(
            levels(&(0..64).map(|i| i * 24).collect::<Vec<_>>()).map(|l| l.len()),
            Some(1)
        );
        assert!(bytes(&cube(8)) <= bytes(&cube(4)) + 3);
        assert!(bytes(&cube(8)) < 20);
    }

    #[test]
    fn blocks_of_two_sizes_are_two_segments() {
        // Ten members share 1003 elements: three have 101, seven have 100.
        let starts: Vec<u64> = (0..10).map(|i| 100 * i + i.min(3)).collect();
        assert_eq!(levels(&starts), None);
        assert_eq!(bytes(&starts), 11);
    }

    #[test]
    fn anything_comes_back() {
        assert_eq!(bytes(&[]), 1);
        assert_eq!(bytes(&[u64::MAX]), 1);
        bytes(&[5, 5]);
        bytes(&[0, u64::MAX, 3, 1 << 63, 2, 2, 2]);
        bytes(&[0, 1, 0, 1, 5, 6, 5, 6]);
    }

    #[test]
    fn what_is_too_long_is_refused() {
        let mut out = vec![];
        encode(&[0, 1, 2, 3], &mut out);
        assert_eq!(decode(&mut out.as_slice(), 0, 3), None);
        // A nest of more elements than the vector is said to have.
        assert_eq!(decode(&mut [4, 0, 1, 5, 0].as_slice(), 0, 10), None);
    }
}

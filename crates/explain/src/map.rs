//! Address by time: where a program went, and where it missed, drawn while it is replayed.
//!
//! **Problem.** A picture has a few hundred rows and columns, whatever the number of accesses and
//! however far apart in memory they are; and neither is known before the last access.
//!
//! **Idea.** Both axes begin fine and become coarser as needed: when there are more columns than
//! [`COLUMNS`], two become one; when more pieces of memory were touched than [`MOST_PIECES`],
//! neighbours become one. Memory that nobody touched has no row.
//!
//! **Misses** are those of one least-recently-used cache of the shape of the first level, for each
//! address space. In a hierarchy whose first level is that and private to each process they are the
//! misses of the tables; in others they are near enough for a picture, and the tables are exact.
use memtrail_model::{Access, Kind};
use memtrail_simulate::Level;
use std::collections::HashMap;

/// Columns of the picture.
pub const COLUMNS: usize = 256;
/// Columns of a timeline: one for four of the picture.
pub const TIMES: usize = COLUMNS / 4;
/// Pieces of memory that are told apart.
const MOST_PIECES: usize = 4096;
/// A piece is a line at first.
const FIRST_SHIFT: u32 = 6;
/// References and objects, taken together, that have timelines of their own.
const MOST_LINES: usize = 1 << 16;
/// Who accessed a piece most: this many are watched.
const WATCHED: usize = 4;

/// Accesses and misses.
pub type Cell = [u32; 2];

/// A piece of memory.
#[derive(Clone, Debug)]
pub struct Piece {
    pub space: u32,
    pub from: u64,
    /// Exclusive.
    pub to: u64,
    pub cells: Box<[Cell; COLUMNS]>,
    /// By number of reference and object: accesses, about.
    pub by: Vec<(u32, u64)>,
}

impl Piece {
    fn merge(&mut self, other: Piece) {
        self.from = self.from.min(other.from);
        self.to = self.to.max(other.to);
        add(&mut self.cells[..], &other.cells[..]);
        other.by.into_iter().for_each(|(by, n)| self.watch(by, n));
    }

    /// Counts who accessed it, as far as there is room: the least one makes room for another, which
    /// inherits its count.
    fn watch(&mut self, by: u32, times: u64) {
        if let Some((_, n)) = self.by.iter_mut().find(|(known, _)| *known == by) {
            *n += times;
        } else if self.by.len() < WATCHED {
            self.by.push((by, times));
        } else if let Some(least) = self.by.iter_mut().min_by_key(|(_, n)| *n) {
            *least = (by, least.1 + times);
        }
    }
}

fn add(to: &mut [Cell], from: &[Cell]) {
    for (to, from) in to.iter_mut().zip(from) {
        to[0] = to[0].saturating_add(from[0]);
        to[1] = to[1].saturating_add(from[1]);
    }
}

/// Two columns become one, in the first half.
fn halve(cells: &mut [Cell]) {
    for at in 0..cells.len() {
        let [a, b] = [2 * at, 2 * at + 1].map(|from| cells.get(from).copied().unwrap_or_default());
        cells[at] = [a[0].saturating_add(b[0]), a[1].saturating_add(b[1])];
    }
}

/// A cache that keeps what was used last.
#[derive(Clone, Debug)]
struct Lru {
    /// By set: its lines, the last used one first.
    sets: Vec<Vec<u64>>,
    ways: usize,
    line_shift: u32,
}

impl Lru {
    fn new(level: &Level) -> Lru {
        Lru {
            sets: vec![Vec::new(); level.sets().max(1) as usize],
            ways: level.ways.max(1) as usize,
            line_shift: level.line.max(1).ilog2(),
        }
    }

    /// Whether a line had to be brought in.
    fn misses(&mut self, address: u64, size: u32) -> bool {
        let last = address.saturating_add(u64::from(size.max(1)) - 1) >> self.line_shift;
        let mut missed = false;
        for line in address >> self.line_shift..=last {
            let sets = self.sets.len() as u64;
            let set = &mut self.sets[(line % sets) as usize];
            match set.iter().position(|&kept| kept == line) {
                Some(0) => {}
                Some(at) => set[..=at].rotate_right(1),
                None => {
                    missed = true;
                    if set.len() == self.ways {
                        set.pop();
                    }
                    set.insert(0, line);
                }
            }
        }
        missed
    }
}

/// What is drawn.
#[derive(Clone, Debug)]
pub struct Map {
    level: Level,
    /// By address space.
    caches: HashMap<u32, Lru>,
    /// By thread.
    spaces: HashMap<u32, u32>,
    accesses: u64,
    misses: u64,
    /// A column is `1 << time_shift` accesses.
    time_shift: u32,
    piece_shift: u32,
    pieces: HashMap<(u32, u64), Piece>,
    /// By number of reference and object.
    lines: Vec<[Cell; TIMES]>,
}

impl Map {
    /// With the first level that data meets.
    pub fn new(level: &Level) -> Map {
        Map {
            level: level.clone(),
            caches: HashMap::new(),
            spaces: HashMap::new(),
            accesses: 0,
            misses: 0,
            time_shift: 0,
            piece_shift: FIRST_SHIFT,
            pieces: HashMap::new(),
            lines: Vec::new(),
        }
    }

    /// Accesses of a thread are in this address space.
    pub fn enter(&mut self, thread: u32, space: u32) {
        self.spaces.insert(thread, space);
    }

    /// Accesses, whose points are numbers of reference and object.
    pub fn see(&mut self, batch: &[Access]) {
        for access in batch
            .iter()
            .filter(|access| matches!(access.kind, Kind::Read | Kind::Write))
        {
            self.add(access);
        }
    }

    fn add(&mut self, access: &Access) {
        let space = self.spaces.get(&access.thread.0).copied().unwrap_or(0);
        let cache = self.caches.entry(space).or_insert_with(|| Lru::new(&self.level));
        let missed = u32::from(cache.misses(access.addr, access.size));
        if self.accesses >> self.time_shift >= COLUMNS as u64 {
            self.pieces.values_mut().for_each(|piece| halve(&mut piece.cells[..]));
            self.lines.iter_mut().for_each(|line| halve(&mut line[..]));
            self.time_shift += 1;
        }
        let column = (self.accesses >> self.time_shift) as usize;
        self.accesses += 1;
        self.misses += u64::from(missed);
        let at = access.addr >> self.piece_shift;
        let shift = self.piece_shift;
        let piece = self.pieces.entry((space, at)).or_insert_with(|| Piece {
            space,
            from: at << shift,
            to: (at << shift).saturating_add(1 << shift),
            cells: Box::new([Cell::default(); COLUMNS]),
            by: Vec::new(),
        });
        add(&mut piece.cells[column..=column], &[[1, missed]]);
        let by = access.point.index().min(MOST_LINES);
        piece.watch(by as u32, 1);
        if by >= self.lines.len() {
            self.lines.resize(by + 1, [Cell::default(); TIMES]);
        }
        let time = column * TIMES / COLUMNS;
        add(&mut self.lines[by][time..=time], &[[1, missed]]);
        if self.pieces.len() > MOST_PIECES {
            self.coarsen();
        }
    }

    /// Neighbours become one.
    fn coarsen(&mut self) {
        self.piece_shift += 1;
        for ((space, at), piece) in std::mem::take(&mut self.pieces) {
            let key = (space, at >> 1);
            match self.pieces.get_mut(&key) {
                Some(other) => other.merge(piece),
                None => drop(self.pieces.insert(key, piece)),
            }
        }
    }

    pub fn accesses(&self) -> u64 {
        self.accesses
    }

    pub fn misses(&self) -> u64 {
        self.misses
    }

    /// Accesses in a column.
    pub fn per_column(&self) -> u64 {
        1 << self.time_shift
    }

    /// By number of reference and object.
    pub fn timelines(&self) -> impl Iterator<Item = &[Cell; TIMES]> {
        self.lines.iter()
    }

    /// Rows of a picture, by address: no more than `most`, if there are no more objects than that.
    /// `object` says which object a number stands for; rows of different ones stay apart.
    pub fn rows(&self, most: usize, object: impl Fn(u32) -> u32) -> Vec<(Piece, Option<u32>)> {
        let mut pieces: Vec<&Piece> = self.pieces.values().collect();
        pieces.sort_by_key(|piece| (piece.space, piece.from));
        let owner = |piece: &Piece| {
            let mut sums: HashMap<u32, u64> = HashMap::new();
            piece
                .by
                .iter()
                .for_each(|&(by, n)| *sums.entry(object(by)).or_default() += n);
            sums.into_iter()
                .max_by_key(|&(object, n)| (n, object))
                .map(|(object, _)| object)
        };
        let owned: Vec<(&Piece, Option<u32>)> = pieces.iter().map(|&piece| (piece, owner(piece))).collect();
        let joined = |together: usize| {
            let mut rows: Vec<(Piece, Option<u32>, usize)> = Vec::new();
            for (piece, owner) in &owned {
                match rows.last_mut() {
                    Some((row, same, n)) if same == owner && row.space == piece.space && *n < together => {
                        row.merge((*piece).clone());
                        *n += 1;
                    }
                    _ => rows.push(((*piece).clone(), *owner, 1)),
                }
            }
            rows
        };
        let fits = |together: &usize| joined(*together).len() <= most;
        let together = (0..13).map(|power| 1 << power).find(fits).unwrap_or(MOST_PIECES);
        joined(together)
            .into_iter()
            .map(|(piece, owner, _)| (piece, owner))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memtrail_model::{Point, Thread};

    fn access(addr: u64, point: u32) -> Access {
        Access {
            thread: Thread(0),
            pc: 0,
            kind: Kind::Read,
            addr,
            size: 8,
            point: Point(point),
        }
    }

    fn level() -> Level {
        Level::new("L1", 1024, 64, 2)
    }

    fn sums(cells: &[Cell]) -> (u64, u64) {
        let sum = |at: usize| cells.iter().map(|cell| u64::from(cell[at])).sum();
        (sum(0), sum(1))
    }

    #[test]
    fn nothing_is_lost_however_coarse_it_becomes() {
        let mut map = Map::new(&level());
        // Two arrays far apart, one of them larger than there are pieces.
        let far = 1 << 40;
        for i in 0..20_000u64 {
            map.see(&[access(i * 64, 0), access(far + i % 8 * 8, 1)]);
        }
        assert_eq!(map.accesses(), 40_000);
        // Each line of the large one once, and the only one of the small one, which stays.
        assert_eq!(map.misses(), 20_001);
        let rows = map.rows(100, |by| by);
        assert!(rows.len() <= 100, "{}", rows.len());
        let all: Vec<(u64, u64)> = rows.iter().map(|(piece, _)| sums(&piece.cells[..])).collect();
        assert_eq!(all.iter().map(|(accesses, _)| accesses).sum::<u64>(), 40_000);
        assert_eq!(all.iter().map(|(_, misses)| misses).sum::<u64>(), 20_001);
        let (last, owner) = rows.last().unwrap();
        assert_eq!((last.from, *owner), (far, Some(1)));
        assert_eq!(sums(&last.cells[..]), (20_000, 1));
        let lines: Vec<(u64, u64)> = map.timelines().map(|line| sums(line)).collect();
        assert_eq!(lines, [(20_000, 20_000), (20_000, 1)]);
        assert!(map.per_column() * COLUMNS as u64 >= 40_000);
    }

    #[test]
    fn equal_addresses_of_two_processes_are_two_rows() {
        let mut map = Map::new(&level());
        map.enter(1, 7);
        let mut other = access(64, 0);
        other.thread = Thread(1);
        map.see(&[access(64, 0), other]);
        assert_eq!((map.misses(), map.rows(10, |by| by).len()), (2, 2));
    }

    #[test]
    fn an_access_across_lines_misses_once() {
        let mut map = Map::new(&level());
        map.see(&[access(60, 0), access(60, 0), access(0, 0), access(64, 0)]);
        assert_eq!(map.misses(), 1);
    }
}

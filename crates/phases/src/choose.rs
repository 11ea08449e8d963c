//! The sampling period: how many base periods make a point of the curve that is looked at.
//!
//! **Problem.** Short periods show noise, long ones hide phases. The volatility profile tells the
//! noise at each period, and the paper chooses by it: where it falls all the way, the first period
//! below a threshold; where it rises again, a trough. Troughs are as narrow as the stream's own
//! period is exact, and the paper found them by hand.
//!
//! **The way.**
//! 1. The profile is measured on a grid of multiples.
//! 2. If it never rises by more than [`RISE`] it is *low* (all below the threshold) or *falling*;
//!    otherwise it *oscillates*. Unless the base period is quiet enough, more is measured: every
//!    multiple between the grid's neighbours of a trough, or down to where a falling profile
//!    crosses the threshold, and every period that the [`spectrum`] has, with twice and three times
//!    that.
//! 3. Chosen is the shortest multiple at or below the threshold. If there is none, the shortest
//!    whose volatility is within [`NEAR`] of the least.
//!
//! **Guard against over-damping.** A long period can have a low volatility because it hides what is
//! looked for. Two rules refuse multiples, whatever their volatility: the curve keeps
//! [`ChoiceOptions::least_points`] points; and every *known coarse level*, a stretch of at least
//! [`ChoiceOptions::coarse`] of the run between two changes ([`segments`](crate::segments)), keeps
//! two points. Coarse levels are looked for at a quarter of that share a point, where fast waves have
//! been averaged out.
use crate::segments::{self, Change};
use crate::spectrum;
use crate::volatility::{self, Percentile, ProfilePoint};
use crate::Stream;
use std::collections::BTreeMap;

/// A profile that rises by no more above its least value so far is said to fall.
pub const RISE: f64 = 0.05;

/// Volatilities that differ by no more are as good as each other.
pub const NEAR: f64 = 0.02;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChoiceOptions {
    pub percentile: Percentile,
    /// Volatility that is low enough.
    pub threshold: f64,
    /// The profile is measured at 1 and at multiples of this.
    pub grid: usize,
    /// Of the curve.
    pub least_points: usize,
    /// What lasts at least this share of the run is not to be hidden.
    pub coarse: f64,
    pub change: Change,
}

impl Default for ChoiceOptions {
    fn default() -> ChoiceOptions {
        ChoiceOptions {
            percentile: Percentile::default(),
            threshold: 0.1,
            grid: 1,
            least_points: 20,
            coarse: 0.02,
            change: Change::default(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProfileShape {
    /// At or below the threshold everywhere.
    Low,
    Falling,
    Oscillating,
}

/// Why this multiple.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Points are so quiet already that nothing needs to be added up.
    QuietAtBase,
    /// The first of a falling profile that is at or below the threshold.
    Threshold,
    /// A trough of the measured grid.
    Trough,
    /// Found between two multiples of the grid.
    Refined,
    /// Suggested by the spectrum, and on no grid.
    Spectrum,
    /// None is below the threshold, and this is the shortest of the quietest.
    Least,
}

/// Which multiple was chosen, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct PeriodChoice {
    /// Base periods a point.
    pub multiple: usize,
    pub volatility: f64,
    pub shape: ProfileShape,
    pub reason: Reason,
    /// The longest multiple that was allowed.
    pub most: usize,
    /// Base periods that the shortest known coarse level lasts, if there are several levels.
    pub coarse: Option<usize>,
    /// A longer multiple that is quieter, or the first that is quiet enough, and would hide coarse
    /// changes.
    pub refused: Option<ProfilePoint>,
    /// All that was measured, by multiple.
    pub profile: Vec<ProfilePoint>,
    /// Periods that the streams have by their spectrum.
    pub spectrum: Vec<usize>,
}

/// Chooses a multiple for streams together, or for one.
pub fn choose(streams: &[&Stream], options: &ChoiceOptions) -> PeriodChoice {
    let len = streams.iter().map(|stream| stream.counts.len()).min().unwrap_or(0);
    let longest = (len / options.least_points.max(2)).max(1);
    let coarse = shortest_level(streams, len, options);
    let most = coarse.map_or(longest, |level| (level / 2).clamp(1, longest));
    let measure = |multiple| volatility::at(streams, multiple, options.percentile);
    let step = options.grid.max(1);
    let grid: Vec<usize> = std::iter::once(1)
        .chain((step..=longest).step_by(step).filter(|&multiple| multiple > 1))
        .collect();
    let measured = volatility::profile(streams, grid.iter().copied(), options.percentile);
    let shape = shape(&measured, options.threshold);
    let mut found: BTreeMap<usize, (f64, Reason)> = BTreeMap::new();
    for point in &measured {
        found.insert(point.multiple, (point.volatility, on_grid(point.multiple, shape)));
    }
    let mut suggested = Vec::new();
    if measured[0].volatility > options.threshold {
        suggested = spectrum::candidates(streams, longest);
        let between = match shape {
            ProfileShape::Oscillating => around_troughs(&measured),
            _ => before_threshold(&measured, options.threshold),
        };
        for multiple in between {
            let refined = || (measure(multiple), Reason::Refined);
            found.entry(multiple).or_insert_with(refined);
        }
        let multiples = suggested.iter().flat_map(|&period| [period, 2 * period, 3 * period]);
        for multiple in multiples.filter(|&multiple| multiple <= longest) {
            let off_grid = || (measure(multiple), Reason::Spectrum);
            found.entry(multiple).or_insert_with(off_grid);
        }
    }
    let allowed = found.range(..=most);
    let (multiple, volatility, reason) = best(allowed, options.threshold);
    let longer = found
        .range(most + 1..)
        .map(|(&multiple, &(volatility, _))| ProfilePoint { multiple, volatility });
    let is_better = |point: &ProfilePoint| point.volatility <= options.threshold && volatility > options.threshold;
    PeriodChoice {
        multiple,
        volatility,
        shape,
        reason,
        most,
        coarse,
        refused: longer.clone().find(is_better),
        profile: (found
            .iter()
            .map(|(&multiple, &(volatility, _))| ProfilePoint { multiple, volatility }))
        .collect(),
        spectrum: suggested,
    }
}

fn on_grid(multiple: usize, shape: ProfileShape) -> Reason {
    match (multiple, shape) {
        (1, _) => Reason::QuietAtBase,
        (_, ProfileShape::Oscillating) => Reason::Trough,
        _ => Reason::Threshold,
    }
}

/// The shortest at or below the threshold, or the shortest of the quietest.
fn best<'f>(
    allowed: impl Iterator<Item = (&'f usize, &'f (f64, Reason))> + Clone,
    threshold: f64,
) -> (usize, f64, Reason) {
    if let Some((&multiple, &(volatility, reason))) = allowed.clone().find(|(_, found)| found.0 <= threshold) {
        return (multiple, volatility, reason);
    }
    let least = allowed.clone().map(|(_, found)| found.0).fold(f64::INFINITY, f64::min);
    let mut near = allowed.filter(|(_, found)| found.0 <= least + NEAR);
    let (&multiple, &(volatility, _)) = near.next().expect("the base period is always measured");
    (multiple, volatility, Reason::Least)
}

fn shape(profile: &[ProfilePoint], threshold: f64) -> ProfileShape {
    if profile.iter().all(|point| point.volatility <= threshold) {
        return ProfileShape::Low;
    }
    let mut least = f64::INFINITY;
    for point in profile {
        least = least.min(point.volatility);
        if point.volatility > least + RISE {
            return ProfileShape::Oscillating;
        }
    }
    ProfileShape::Falling
}

/// The multiples between the neighbours of each trough of a profile.
fn around_troughs(profile: &[ProfilePoint]) -> Vec<usize> {
    let mut between = Vec::new();
    for at in 0..profile.len() {
        let (here, next) = (profile[at], profile.get(at + 1));
        let before = at.checked_sub(1).map(|before| profile[before]);
        let falls = before.is_none_or(|before| before.volatility >= here.volatility);
        let rises = next.is_none_or(|next| next.volatility >= here.volatility);
        if falls && rises {
            let from = before.map_or(here.multiple, |before| before.multiple);
            let to = next.map_or(here.multiple, |next| next.multiple);
            between.extend(from..=to);
        }
    }
    between
}

/// The multiples between the first of a profile that is quiet enough and the one before.
fn before_threshold(profile: &[ProfilePoint], threshold: f64) -> Vec<usize> {
    let crossing = profile.windows(2).find(|pair| pair[1].volatility <= threshold);
    crossing.map_or(Vec::new(), |pair| (pair[0].multiple..=pair[1].multiple).collect())
}

/// How long the shortest known coarse level lasts, in base periods; nothing if there is only one.
fn shortest_level(streams: &[&Stream], len: usize, options: &ChoiceOptions) -> Option<usize> {
    let each = ((len as f64 * options.coarse / 4.0).ceil() as usize).max(1);
    let rows = segments::rows(streams, each);
    let found = segments::segments(&rows, 4, &options.change);
    match found.len() {
        0 | 1 => None,
        _ => found.iter().map(|segment| segment.len() * each).min(),
    }
}

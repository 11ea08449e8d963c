//! Which objects to put into huge pages, under a budget of them.
//!
//! What one object gains depends on which others are there already: they compete for the TLB
//! entries of huge pages. So a set is built one object at a time, and each step simulates again
//! what every remaining object would add to those that were chosen.

/// What there is to be given out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Huge pages.
    pub pages: u64,
    /// A step that saves less of the time than this is not made, in thousandths.
    pub least: u64,
}

/// A scenario as it was simulated: cycles that translation takes in all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gain {
    pub cycles: u64,
}

/// One step: a candidate, and what it saved beyond those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    pub candidate: usize,
    pub saved: u64,
    /// Cycles with all chosen so far.
    pub cycles: u64,
    /// Huge pages of all chosen so far.
    pub pages: u64,
}

/// Candidates in the order in which they are worth it.
///
/// `pages` says how many huge pages a set of candidates needs, `simulate` what translation costs with
/// each of several sets. `base` is the cost without any.
pub fn best_set<E>(
    candidates: usize,
    base: u64,
    budget: Budget,
    pages: impl Fn(&[usize]) -> u64,
    mut simulate: impl FnMut(&[Vec<usize>]) -> Result<Vec<Gain>, E>,
) -> Result<Vec<Choice>, E> {
    let (mut chosen, mut choices) = (Vec::new(), Vec::new());
    let mut now = base;
    loop {
        let with = |candidate: usize| [&chosen[..], &[candidate]].concat();
        let left = (0..candidates).filter(|candidate| !chosen.contains(candidate));
        let fits = |set: &Vec<usize>| pages(set) <= budget.pages;
        let sets: Vec<Vec<usize>> = left.map(with).filter(fits).collect();
        if sets.is_empty() {
            return Ok(choices);
        }
        let gains = simulate(&sets)?;
        // Of equals the first: the sort order of the candidates decides.
        let best = sets.iter().zip(gains).min_by_key(|(_, gain)| gain.cycles);
        let Some((set, Gain { cycles })) = best else {
            return Ok(choices);
        };
        let saved = now.saturating_sub(cycles);
        if saved == 0 || saved.saturating_mul(1000) < base.saturating_mul(budget.least) {
            return Ok(choices);
        }
        let candidate = set[set.len() - 1];
        let pages = pages(set);
        now = cycles;
        chosen.push(candidate);
        choices.push(Choice {
            candidate,
            saved,
            cycles,
            pages,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    /// Each saves so much alone; 0 and 1 together save no more than 0 does.
    fn simulate(sets: &[Vec<usize>]) -> Result<Vec<Gain>, Infallible> {
        let saved = |set: &Vec<usize>| {
            let of = |candidate: usize, cycles: u64| if set.contains(&candidate) { cycles } else { 0 };
            of(0, 500).max(of(1, 400)) + of(2, 100) + of(3, 4)
        };
        Ok(sets
            .iter()
            .map(|set| Gain {
                cycles: 1000 - saved(set),
            })
            .collect())
    }

    fn chosen(pages: u64) -> Vec<(usize, u64, u64)> {
        let budget = Budget { pages, least: 10 };
        let Ok(choices) = best_set(4, 1000, budget, |set| 2 * set.len() as u64, simulate);
        choices.iter().map(|c| (c.candidate, c.saved, c.pages)).collect()
    }

    #[test]
    fn marginal_gains_decide_and_the_budget_holds() {
        assert_eq!(chosen(100), [(0, 500, 2), (2, 100, 4)]);
        assert_eq!(chosen(3), [(0, 500, 2)]);
        assert_eq!(chosen(1), []);
    }
}

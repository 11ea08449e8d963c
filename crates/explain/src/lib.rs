//! What results mean, for a person who has a slow program and half an hour.
//!
//! Everything here is a function of a [`ResultSet`](memtrail_report::ResultSet):
//!
//! - [`answer`]: one screen: what was spent on memory, and the three things to look at first;
//! - [`diff`]: what differs between two runs, matched by names and structure;
//! - [`html`]: one page to look at, in any browser, without a network;
//! - [`profile`]: the same counts as other tools read them;
//! - [`map`], [`cycles`]: what the page shows that tables do not.
//!
//! **Names, not addresses.** What is told of a program is told in the words of its source, and what
//! is compared between two builds is compared by those words: see [`names`].
//!
//! Not for: running a replay, finding names, terminals. The caller says how wide a text may be.
#![forbid(unsafe_code)]

pub mod answer;
pub mod cycles;
pub mod diff;
pub mod html;
pub mod map;
mod names;
pub mod profile;
mod words;

//! Which intervals of a run stand for all of it, and what an answer from a few of them is worth.
//!
//! **SimPoint.** A run is cut into intervals of equally many instructions. What an interval does is
//! a vector ([`vectors`]): how often each piece of code ran, and how memory was used. Vectors are
//! projected to a few dimensions and clustered ([`cluster`]: k-means from several seeds, the number
//! of clusters by the Bayesian information criterion). The interval nearest to the middle of a
//! cluster stands for it, with the cluster's share of the run as its weight.
//!
//! **Estimates.** Clusters are strata ([`estimate`]): at least two intervals of each are drawn at
//! random, so that the answer comes with a confidence interval. One interval a cluster, as SimPoint
//! has it, tells nothing about its own error.
//!
//! Everything follows from the vectors and a seed. Not for: reading recordings, simulating.
#![forbid(unsafe_code)]

pub mod cluster;
pub mod estimate;
pub mod random;
pub mod vectors;

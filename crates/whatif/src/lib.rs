//! What if the program were otherwise: the same accesses with data laid out differently, or with
//! the iterations of its loops in another order.
//!
//! Two questions, two halves:
//!
//! - *Layout* ([`layout`]): an object's bytes lie elsewhere (padded, aligned, moved, split into an
//!   array for each field, its fields in another order). Every access to it gets another address;
//!   nothing else changes, so the answer is exact for the run that was recorded.
//! - *Loop order* ([`capture`], [`order`]): the iterations of a nest of loops are collected with
//!   their iteration numbers, put in another order (interchanged, tiled, fused) and compared.
//!   A new order is *legal for this run* if every read still reads what the same write wrote, and
//!   every location is still written last by the same write ([`legality`]).
//!
//! Not for: opening recordings, simulating, choosing what to try. The command does that.
#![forbid(unsafe_code)]

pub mod capture;
pub mod layout;
pub mod legality;
pub mod order;

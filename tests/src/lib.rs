//! Runs tiny guest programs three ways and demands that all agree.
//!
//! A guest is one source file in `guests/`, named by the behaviour it tests.
//! It is run natively (what should it print, how should it end?), under the
//! single-stepping oracle (what does it touch, in which order?), and under the
//! recorder in every probe mode. Output and exit status must be the same, and
//! the list of accesses of each thread identical to the last one.
//!
//! - [`guest`]: what guests there are and how each is built,
//! - [`cpu`]: which of them this machine can run,
//! - [`run`]: the three ways of running one,
//! - [`tuples`]: descriptors back to accesses,
//! - [`compare`]: the verdict, and the first difference if there is one,
//! - [`matrix`]: all of it for one guest and one configuration of the recorder,
//! - [`reader`]: the independent reader of recordings,
//! - [`step`]: a running guest's single steps, and a signal after one of them,
//! - [`subject`]: larger programs, recorded and simulated.
//!
//! Not for measuring: guests are too small for that.

pub mod compare;
pub mod cpu;
pub mod guest;
pub mod matrix;
pub mod reader;
pub mod run;
pub mod step;
pub mod subject;
pub mod tools;
pub mod tuples;

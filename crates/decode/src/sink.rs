//! What a collector hands on: blocks, messages, records.
use crate::{Block, Message, State};
use memtrail_model::Thread;
use std::io;

/// The records of one buffer of one thread.
#[derive(Clone, Copy, Debug)]
pub struct Piece<'w> {
    pub thread: Thread,
    pub process: u32,
    /// Time stamp counter when the thread began and ended it.
    pub begin: u64,
    pub end: u64,
    /// Accesses of the thread before this piece, and in it. The last record belongs to the piece
    /// that shows how it ended.
    pub first: u64,
    pub accesses: u64,
    /// What decoding goes on from at the first word.
    pub state: &'w State,
    /// Whole records.
    pub words: &'w [u64],
    /// The number of each record's leaf ([`Block::first_leaf`]), or [`NO_LEAF`](crate::NO_LEAF) for
    /// one that has to be looked at; or nothing at all.
    pub leaves: &'w [u32],
}

/// Whoever stores what was drained.
pub trait Sink: Send {
    /// Blocks that were just defined. They come before any record of theirs.
    fn blocks(&mut self, blocks: &[Block]) -> io::Result<()>;
    /// What else a process tells about itself.
    fn message(&mut self, process: u32, message: &Message) -> io::Result<()>;
    /// Records of one thread; those of a thread come in order.
    fn records(&mut self, piece: &Piece<'_>) -> io::Result<()>;
    /// No more records of this thread will come. Not said of those that live to the end.
    fn ended(&mut self, _thread: Thread) -> io::Result<()> {
        Ok(())
    }
    /// A word from the runtime to the user.
    fn warning(&mut self, _text: &str) {}
}

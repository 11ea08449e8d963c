//! Which address space each thread lives in.
use memtrail_model::Thread;

#[derive(Default)]
pub struct Spaces(Vec<u64>);

impl Spaces {
    pub fn set(&mut self, thread: Thread, space: u32) {
        let at = thread.0 as usize;
        if self.0.len() <= at {
            self.0.resize(at + 1, 0);
        }
        self.0[at] = u64::from(space) << 48;
    }

    /// Where a thread's addresses begin: see [`crate::engine::placed`].
    pub fn of(&self, thread: Thread) -> u64 {
        self.0.get(thread.0 as usize).copied().unwrap_or(0)
    }
}

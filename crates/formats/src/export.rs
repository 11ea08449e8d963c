//! From a replay to a foreign format.
use memtrail_decode::StepSink;
use memtrail_model::{Access, AccessSink, Thread};
use std::io::{self, Write};

/// What a format had no room for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    pub prefetches: u64,
}

/// A format that is being written.
pub trait Encode {
    /// Whether it is worth telling instructions. If not, they are not told.
    fn wants_instructions(&self) -> bool {
        false
    }
    /// What comes before everything else.
    fn begin(&mut self, _out: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }
    /// An instruction whose accesses follow.
    fn instruction(&mut self, _pc: u64, _bytes: u32, _out: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }
    fn access(&mut self, access: &Access, out: &mut dyn Write) -> io::Result<()>;
    /// Nothing comes after this.
    fn finish(&mut self, _out: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }
    fn left_out(&self) -> LeftOut {
        LeftOut::default()
    }
}

impl<E: Encode + ?Sized> Encode for Box<E> {
    fn wants_instructions(&self) -> bool {
        (**self).wants_instructions()
    }
    fn begin(&mut self, out: &mut dyn Write) -> io::Result<()> {
        (**self).begin(out)
    }
    fn instruction(&mut self, pc: u64, bytes: u32, out: &mut dyn Write) -> io::Result<()> {
        (**self).instruction(pc, bytes, out)
    }
    fn access(&mut self, access: &Access, out: &mut dyn Write) -> io::Result<()> {
        (**self).access(access, out)
    }
    fn finish(&mut self, out: &mut dyn Write) -> io::Result<()> {
        (**self).finish(out)
    }
    fn left_out(&self) -> LeftOut {
        (**self).left_out()
    }
}

/// Writes what is replayed, from accesses alone or from instructions. Remembers the first error,
/// since sinks cannot return one.
#[derive(Debug)]
pub struct Export<E, W: Write> {
    format: E,
    out: W,
    failed: Option<io::Error>,
    accesses: u64,
}

impl<E: Encode, W: Write> Export<E, W> {
    pub fn new(mut format: E, mut out: W) -> Export<E, W> {
        let failed = format.begin(&mut out).err();
        Export {
            format,
            out,
            failed,
            accesses: 0,
        }
    }

    pub fn failed(&self) -> bool {
        self.failed.is_some()
    }

    /// Writes what is left. Returns the number of accesses that came, what of them was left out,
    /// and the output.
    pub fn finish(mut self) -> io::Result<(u64, LeftOut, W)> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        self.format.finish(&mut self.out)?;
        self.out.flush()?;
        Ok((self.accesses, self.format.left_out(), self.out))
    }
}

impl<E: Encode, W: Write> AccessSink for Export<E, W> {
    fn accesses(&mut self, batch: &[Access]) {
        if self.failed.is_some() {
            return;
        }
        self.accesses += batch.len() as u64;
        let (format, out) = (&mut self.format, &mut self.out);
        self.failed = batch.iter().try_for_each(|a| format.access(a, out)).err();
    }

    fn done(&self) -> bool {
        self.failed()
    }
}

impl<E: Encode, W: Write> StepSink for Export<E, W> {
    fn instruction(&mut self, _thread: Thread, pc: u64, bytes: u32) {
        if self.failed.is_none() {
            self.failed = self.format.instruction(pc, bytes, &mut self.out).err();
        }
    }

    fn access(&mut self, access: &Access) {
        self.accesses(std::slice::from_ref(access));
    }
}

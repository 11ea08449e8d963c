//! Executions instruction by instruction, for those who want to know about instructions without
//! accesses, too.
use crate::decode::{derive, step, Consumer, Run};
use crate::shape::{expand, Values};
use crate::{Cut, DecodeError, Table, Tally};
use memtrail_model::{Access, Point, Thread};
use memtrail_plan::Shape;
use memtrail_plan::XsaveTable;

/// Whoever follows a thread instruction by instruction.
pub trait StepSink {
    /// An instruction of so many bytes is executed; its accesses follow. Each element of a repeated
    /// string instruction is an execution of its own. One that did not complete is told only if it
    /// made an access.
    fn instruction(&mut self, thread: Thread, pc: u64, bytes: u32);
    fn access(&mut self, access: &Access);
}

/// Expands executions to instructions and their accesses. Slower than [`crate::Expander`].
#[derive(Debug)]
pub struct Walker<'x, S: StepSink> {
    xsave: &'x XsaveTable,
    sink: S,
    /// Accesses still wanted.
    left: u64,
}

impl<'x, S: StepSink> Walker<'x, S> {
    pub fn new(xsave: &'x XsaveTable, sink: S) -> Self {
        Walker {
            xsave,
            sink,
            left: u64::MAX,
        }
    }

    /// Tells no more than the first `n` accesses, and nothing behind them.
    pub fn with_limit(mut self, n: u64) -> Self {
        self.left = n;
        self
    }

    pub fn sink(&self) -> &S {
        &self.sink
    }

    pub fn into_sink(self) -> S {
        self.sink
    }

    /// One execution, up to the cut if there is one.
    fn once(&mut self, run: &Run, cut: Option<&Cut>) -> Result<(), DecodeError> {
        let (block, plan) = (run.block, &run.block.plan);
        let mut accesses = plan.accesses.as_slice();
        let mut points = block.points.iter();
        for insn in 0..plan.insn_offsets.len() as u16 {
            if self.left == 0 || cut.is_some_and(|c| c.excludes(insn)) {
                return Ok(());
            }
            let cut = cut.filter(|c| c.insn == insn);
            let (pc, bytes) = plan.instruction(insn);
            let mut told = cut.is_none();
            if told {
                self.sink.instruction(run.thread, pc, bytes);
            }
            while let Some((access, rest)) = accesses.split_first().filter(|(a, _)| a.insn == insn) {
                accesses = rest;
                let point = points.next();
                let values = Values {
                    block: run.block.id,
                    slots: run.slots,
                    xsave: self.xsave,
                    cut,
                };
                let each = per_element(&access.shape);
                let (sink, left, mut made) = (&mut self.sink, &mut self.left, 0);
                expand(access, &values, 0, |kind, addr, size| {
                    if *left == 0 {
                        return false;
                    }
                    *left -= 1;
                    if !told || each > 0 && made == each {
                        sink.instruction(run.thread, pc, bytes);
                        (told, made) = (true, 0);
                    }
                    made += 1;
                    sink.access(&Access {
                        thread: run.thread,
                        pc,
                        kind,
                        addr,
                        size,
                        point: point.map_or(Point::NONE, |p| p.of(access, kind)),
                    });
                    true
                })?;
            }
        }
        Ok(())
    }
}

/// Accesses of an element of a repeated string instruction; 0 for all others.
fn per_element(shape: &Shape) -> u32 {
    match shape {
        Shape::Repeat(repeat) => u32::from(repeat.source.is_some()) + u32::from(repeat.dest.is_some()),
        _ => 0,
    }
}

impl<S: StepSink> Consumer for Walker<'_, S> {
    const NEEDS_ADDRESSES: bool = true;

    fn tally(&mut self, _table: &Table) -> Option<&mut Tally> {
        None
    }

    fn full(&self) -> bool {
        self.left == 0
    }

    fn run(&mut self, run: Run<'_>) -> Result<(), DecodeError> {
        for i in 0..run.complete {
            if self.full() {
                return Ok(());
            }
            self.once(&run, None)?;
            step(run.block, run.slots);
            if i + 1 < run.complete || run.cut.is_some() {
                derive(run.block, run.slots);
            }
        }
        match run.cut {
            Some(cut) => self.once(&run, Some(&cut)),
            None => Ok(()),
        }
    }
}

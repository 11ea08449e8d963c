//! Runs programs under the recorder, into memory.
use memtrail_collect::{Allocators, Options, Outcome, Session};
use memtrail_decode::Sink;
use memtrail_plan::XsaveTable;
use memtrail_ring::{Paths, Probes};
use memtrail_trace::{Header, Limits, Pipeline, Totals, Writer};
use memtrail_tracee::{launch, Command};

pub const OPTIONS: memtrail_translate::Options = memtrail_translate::Options {
    probes: Probes::Loop,
    max_block: 64,
};

/// Runs a command with fixed addresses.
pub fn run(command: &[&str], xsave: &XsaveTable, sink: &mut impl Sink) -> Outcome {
    let options = Options {
        probes: OPTIONS.probes,
        max_block: OPTIONS.max_block,
        discard: false,
        follow: true,
        paths: Paths::Hot,
    };
    let session = Session::create(&options).unwrap();
    let session = session.with_allocators(Allocators::standard());
    let held = launch(&Command {
        program: command[0].into(),
        args: command[1..].iter().map(Into::into).collect(),
        fixed_addresses: true,
    });
    let target = held.unwrap().exec().unwrap();
    let outcome = memtrail_collect::record(&session, target, xsave, sink, &mut |_| {}).unwrap();
    assert!(outcome.drained.failure.is_none(), "{:?}", outcome.drained.failure);
    outcome
}

pub fn pipeline(xsave: &XsaveTable) -> Pipeline<Vec<u8>> {
    let mut header = super::header();
    (header.xcr0, header.xsave) = (0, Vec::new());
    Header::set_xsave(&mut header, xsave);
    Pipeline::new(
        Writer::new(Vec::new(), &header).unwrap(),
        Limits::of(Limits::LEAST_BYTES),
    )
}

/// The recording that a pipeline has made.
pub fn finish(pipeline: Pipeline<Vec<u8>>, outcome: &Outcome) -> Vec<u8> {
    let drained = &outcome.drained;
    let totals = Totals {
        threads: drained.threads,
        processes: drained.processes,
        ring_words: drained.ring_words,
        tsc_hz: outcome.tsc_hz,
        ..Totals::default()
    };
    pipeline.finish(&totals.with_counts(&drained.counts)).unwrap().0
}

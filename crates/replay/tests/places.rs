//! Where code of recorded programs comes from, and whose memory is whose.
mod common;
#[path = "common/run.rs"]
mod run;

use common::{header, recording};
use memtrail_decode::Message;
use memtrail_model::{Access, AccessSink, Event, Reply, Thread};
use memtrail_replay::{accesses, Selection};
use memtrail_trace::{Known, Reader, Totals, Writer};
use memtrail_tracee::xsave_table;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Cursor;

/// Reference points by thread, and address spaces as they were told.
#[derive(Default)]
struct Executed {
    points: BTreeMap<u32, BTreeSet<usize>>,
    spaces: BTreeMap<u32, u32>,
}

impl AccessSink for Executed {
    fn accesses(&mut self, batch: &[Access]) {
        for a in batch {
            assert!(self.spaces.contains_key(&a.thread.0));
            self.points.entry(a.thread.0).or_default().insert(a.point.index());
        }
    }
    fn event(&mut self, event: Event<'_>) -> Reply {
        if let Event::Space { thread, space } = event {
            self.spaces.insert(thread.0, space);
        }
        Reply::NOTHING
    }
}

/// The modules each thread executed, and the space of each.
fn executed(command: &[&str]) -> (Vec<BTreeSet<String>>, Vec<u32>) {
    let xsave = xsave_table();
    let mut pipeline = run::pipeline(&xsave);
    let outcome = run::run(command, &xsave, &mut pipeline);
    let bytes = run::finish(pipeline, &outcome);
    let mut reader = Reader::open(Cursor::new(bytes)).unwrap();
    let known = Known::read(&mut reader).unwrap();
    let mut executed = Executed::default();
    accesses(&mut reader, &known, &Selection::default(), &mut executed).unwrap();
    let module = |point: &usize| {
        let place = known.table.images().place(known.table.points()[*point].code);
        place.file().unwrap().name()
    };
    let modules = |points: &BTreeSet<usize>| points.iter().map(module).collect();
    (
        executed.points.values().map(modules).collect(),
        executed.spaces.into_values().collect(),
    )
}

#[test]
fn a_forked_process_runs_its_parents_code_in_a_space_of_its_own() {
    let (modules, spaces) = executed(&["sh", "-c", "(exit 3); (exit 4); exit 5"]);
    assert_eq!(spaces, [0, 1, 2]);
    assert_eq!(modules.len(), 3);
    // A program has the name it was started by, whatever that leads to.
    assert!(modules.iter().all(|m| m.contains("sh")), "{modules:?}");
}

#[test]
fn after_an_exec_there_is_another_program() {
    let (modules, spaces) = executed(&["sh", "-c", "/bin/true; exec /bin/true"]);
    assert_eq!(spaces, [0, 1]);
    // Both run the shell first.
    for modules in modules {
        assert!(modules.contains("sh") && modules.contains("true"), "{modules:?}");
    }
}

#[test]
fn a_spawned_child_is_in_the_process_it_becomes() {
    let thread = |thread, tsc| Message::Thread { thread, tid: 9, tsc };
    let mut writer = Writer::new(Vec::new(), &header()).unwrap();
    // Thread 1 begins in process 0 and goes on in process 1.
    for (process, message) in [
        (0, thread(0, 5)),
        (0, thread(1, 6)),
        (1, thread(1, 7)),
        (2, thread(2, 8)),
    ] {
        writer.message(process, &message).unwrap();
    }
    let bytes = writer.finish(&Totals::default()).unwrap().0;
    let known = Known::read(&mut Reader::open(Cursor::new(bytes)).unwrap()).unwrap();
    assert_eq!([0, 1, 2, 3].map(|t| known.space(Thread(t))), [0, 1, 2, 0]);
    assert_eq!((known.threads[&1].process, known.threads[&1].space), (0, 1));
}

#[test]
fn places_of_a_recording_by_hand() {
    let known = Known::read(&mut Reader::open(Cursor::new(recording().bytes)).unwrap()).unwrap();
    let place = |insn| {
        let code = known.table.blocks()[0].code_address(insn);
        known.table.images().place(code).to_string()
    };
    assert_eq!(
        [place(0), place(1), place(2)],
        ["file+0x1000", "file+0x1001", "file+0x1005"]
    );
}

//! Recording to a disk that fills up: the target goes on, and what was stored stays readable.
use memtrail_collect::{CollectError, Options, Session};
use memtrail_ring::{Paths, Probes};
use memtrail_trace::{Ending, Header, Limits, Pipeline, Reader, Writer};
use memtrail_tracee::{launch, xsave_table, Command, Status};
use std::io::{Cursor, ErrorKind, Write};
use std::sync::{Arc, Mutex};

/// A disk with room for so many bytes.
#[derive(Clone)]
struct Small {
    stored: Arc<Mutex<Vec<u8>>>,
    room: usize,
}

impl Write for Small {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let mut stored = self.stored.lock().unwrap();
        let n = bytes.len().min(self.room - stored.len());
        if n == 0 {
            return Err(ErrorKind::StorageFull.into());
        }
        stored.extend_from_slice(&bytes[..n]);
        Ok(n)
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_disk_that_fills_up_does_not_stop_the_target() {
    let options = Options {
        probes: Probes::Loop,
        max_block: 64,
        discard: false,
        follow: true,
        paths: Paths::Hot,
    };
    let session = Session::create(&options).unwrap();
    let xsave = xsave_table();
    let mut header = Header {
        ranks: Default::default(),
        command: vec!["sh".into()],
        pid: 0,
        probes: Probes::Loop as u32,
        max_block: 64,
        page_bytes: 4096,
        unix_time: 0,
        xcr0: 0,
        xsave: Vec::new(),
        features: Vec::new(),
    };
    header.set_xsave(&xsave);
    let disk = Small {
        stored: Arc::default(),
        room: 60_000,
    };
    let writer = Writer::new(disk.clone(), &header).unwrap();
    let mut pipeline = Pipeline::new(writer, Limits::of(Limits::LEAST_BYTES));
    let script = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; exit 5";
    let target = launch(&Command {
        program: "sh".into(),
        args: vec!["-c".into(), script.into()],
        fixed_addresses: false,
    })
    .unwrap()
    .exec()
    .unwrap();
    let mut notices = Vec::new();
    let outcome = memtrail_collect::record(&session, target, &xsave, &mut pipeline, &mut |n| {
        notices.push(n);
    })
    .unwrap();
    let full = matches!(&outcome.drained.failure,
        Some(CollectError::Store(e)) if e.kind() == ErrorKind::StorageFull);
    assert!(full, "{:?}", outcome.drained.failure);
    assert_eq!(outcome.ended.unwrap().status, Status::Exited(5));
    assert!(notices.contains(&memtrail_collect::Notice::Failed));
    let whole = pipeline.give_up();
    let bytes = disk.stored.lock().unwrap().clone();
    let mut reader = Reader::open(Cursor::new(bytes)).unwrap();
    let checked = memtrail_replay::check(&mut reader).unwrap();
    assert_eq!(checked.ending, Ending::CutOff { at: whole });
}

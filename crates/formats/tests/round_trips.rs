//! Random traces survive each format, as far as it can express them.
mod common;

use common::{import, replayed, through, Told};
use memtrail_decode::StepSink;
use memtrail_formats::{din, drmemtrace, lackey, raw, text, Encode, Error, Event, Export, Source};
use memtrail_model::{Access, Kind, Point, Thread};
use proptest::prelude::*;

/// A source of events that are known already.
struct Scripted(std::vec::IntoIter<Event>);

impl Source for Scripted {
    fn next(&mut self) -> Result<Option<Event>, Error> {
        Ok(self.0.next())
    }
}

/// What a format makes of events of one thread.
fn exported(format: impl Encode, thread: u32, events: &[Event]) -> Vec<u8> {
    let instructions = format.wants_instructions();
    let mut export = Export::new(format, Vec::new());
    let mut at = 0;
    for event in events {
        match *event {
            Event::Instruction { pc, bytes } => {
                at = pc;
                if instructions {
                    export.instruction(Thread(thread), pc, bytes);
                }
            }
            Event::Access { kind, addr, size } => export.access(&Access {
                thread: Thread(thread),
                pc: at,
                kind,
                addr,
                size,
                point: Point::NONE,
            }),
            Event::Thread { .. } | Event::Time(_) => {}
        }
    }
    export.finish().unwrap().2
}

/// Executions of a few instructions, with loops, strides and jumps.
fn events() -> impl Strategy<Value = Vec<Event>> {
    let kind = prop_oneof![Just(Kind::Read), Just(Kind::Write), Just(Kind::Prefetch)];
    let addr = prop_oneof![0x5000u64..0x5040, any::<u64>()];
    let access = (kind, addr, prop_oneof![1u32..=16, Just(64), Just(65535)]);
    let pc = prop_oneof![(0u64..8).prop_map(|i| 0x40_1000 + 4 * i), any::<u64>()];
    let bytes = prop_oneof![4 => Just(4u32), 1 => 0u32..=15];
    let executed = (pc, bytes, prop::collection::vec(access, 0..4));
    let body = prop::collection::vec(executed, 1..8);
    let part = (body, 1u64..20, any::<u64>());
    prop::collection::vec(part, 1..6).prop_map(|parts| {
        let mut events = Vec::new();
        for (body, times, stride) in parts {
            for i in 0..times {
                for (pc, bytes, accesses) in &body {
                    let (pc, bytes) = (*pc, *bytes);
                    events.push(Event::Instruction { pc, bytes });
                    events.extend(accesses.iter().map(|&(kind, addr, size)| Event::Access {
                        kind,
                        addr: addr.wrapping_add(stride.wrapping_mul(i)),
                        size,
                    }));
                }
            }
        }
        events.insert(0, Event::Instruction { pc: 1, bytes: 1 });
        events.insert(
            1,
            Event::Access {
                kind: Kind::Read,
                addr: 2,
                size: 3,
            },
        );
        events
    })
}

/// What must come out if nothing is lost.
fn expected(thread: u32, events: &[Event]) -> Told {
    let mut told = Told::default();
    let text = exported(text::Writer::default(), thread, events);
    for event in events {
        if let Event::Instruction { pc, bytes } = *event {
            told.instructions.push((thread, pc, bytes));
        }
    }
    // The text is what Display makes of accesses.
    let mut at = 0;
    for event in events {
        match *event {
            Event::Instruction { pc, .. } => at = pc,
            Event::Access { kind, addr, size } => told.accesses.push(Access {
                thread: Thread(thread),
                pc: at,
                kind,
                addr,
                size,
                point: Point::NONE,
            }),
            _ => {}
        }
    }
    let lines: String = told.accesses.iter().map(|a| format!("{a}\n")).collect();
    assert_eq!(String::from_utf8(text).unwrap(), lines);
    told
}

fn without_prefetches(events: &[Event]) -> Vec<Event> {
    let is_prefetch = |e: &Event| matches!(e, Event::Access { kind, .. } if *kind == Kind::Prefetch);
    events.iter().filter(|e| !is_prefetch(e)).copied().collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn recordings_keep_everything(events in events()) {
        let told = through(&mut Scripted(events.clone().into_iter()));
        prop_assert_eq!(told, expected(0, &events));
    }

    #[test]
    fn lackey_keeps_all_but_prefetches(events in events()) {
        let bytes = exported(lackey::Writer::default(), 0, &events);
        let told = through(&mut lackey::Reader::new(&bytes[..]));
        prop_assert_eq!(told, expected(0, &without_prefetches(&events)));
    }

    #[test]
    fn drmemtrace_keeps_everything(events in events()) {
        let about = drmemtrace::About { pid: 7, tid: 8, time: 9 };
        let bytes = exported(drmemtrace::Writer::new(about), 5, &events);
        let told = through(&mut drmemtrace::Reader::new(&bytes[..], 5));
        prop_assert_eq!(told, expected(5, &events));
    }

    #[test]
    fn text_keeps_accesses(events in events()) {
        let bytes = exported(text::Writer::default(), 3, &events);
        let told = through(&mut text::Reader::new(&bytes[..]));
        prop_assert_eq!(told.accesses, expected(3, &events).accesses);
    }

    #[test]
    fn din_keeps_addresses_kinds_and_fetched_instructions(events in events()) {
        let kept = without_prefetches(&events);
        let mut all = expected(0, &kept);
        all.accesses.iter_mut().for_each(|a| a.size = 4);
        all.instructions.iter_mut().for_each(|i| i.2 = 0);
        let bytes = exported(din::Writer::new(true), 0, &events);
        let told = through(&mut din::Reader::new(&bytes[..], 4));
        prop_assert_eq!(&told, &all);
        all.accesses.iter_mut().for_each(|a| a.pc = 0);
        let bytes = exported(din::Writer::new(false), 0, &events);
        let told = through(&mut din::Reader::new(&bytes[..], 4));
        prop_assert_eq!(told.accesses, all.accesses);
    }

    #[test]
    fn raw_has_the_addresses(events in events()) {
        let bytes = exported(raw::Writer, 0, &events);
        let addrs: Vec<u8> = expected(0, &events).accesses.iter().flat_map(|a| a.addr.to_le_bytes()).collect();
        prop_assert_eq!(bytes, addrs);
    }

    #[test]
    fn threads_keep_their_own_order(turns in prop::collection::vec((0u32..4, 0u64..40, 1u64..9), 1..200)) {
        let mut lines = String::new();
        for (thread, addr, pc) in turns {
            lines.push_str(&format!("{thread} {pc:#x} R {addr:#x} 8\n"));
        }
        let (bytes, _) = import(&mut [&mut text::Reader::new(lines.as_bytes())]).unwrap();
        let (told, _) = replayed(&bytes);
        let mut all: Vec<&str> = lines.lines().collect();
        all.sort_by_key(|l| l.as_bytes()[0]);
        let got: Vec<String> = told.accesses.iter().map(ToString::to_string).collect();
        prop_assert_eq!(got, all);
    }

    #[test]
    fn no_bytes_make_a_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..400), lines in "[ILSM0-9a-fxRWP, \n=]{0,300}") {
        for sample in [&bytes[..], lines.as_bytes()] {
            memtrail_formats::guess(sample);
            let sources: [Box<dyn Source + '_>; 4] = [
                Box::new(lackey::Reader::new(sample)),
                Box::new(din::Reader::new(sample, 4)),
                Box::new(text::Reader::new(sample)),
                Box::new(drmemtrace::Reader::new(sample, 0)),
            ];
            for mut source in sources {
                if let Ok((bytes, imported)) = import(&mut [&mut *source]) {
                    prop_assert_eq!(replayed(&bytes).1, imported.counts);
                }
            }
        }
    }
}

#[test]
fn sizes_that_drmemtrace_does_not_have_are_an_error() {
    let about = drmemtrace::About {
        pid: 0,
        tid: 0,
        time: 0,
    };
    let mut export = Export::new(drmemtrace::Writer::new(about), Vec::new());
    export.instruction(Thread(0), 0x1000, 65536);
    assert!(export.failed());
    let error = export.finish().unwrap_err();
    assert_eq!(
        error.to_string(),
        "an instruction of 65536 bytes: drmemtrace has no sizes above 65535"
    );
}

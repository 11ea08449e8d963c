#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| memtrail_replay::fuzzing::file(&memtrail_trace::fuzzing::repaired(bytes)));

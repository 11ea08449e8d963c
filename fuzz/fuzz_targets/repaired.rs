#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| memtrail_trace::fuzzing::file(&memtrail_trace::fuzzing::repaired(bytes)));

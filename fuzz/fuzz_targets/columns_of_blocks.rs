#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| memtrail_trace::fuzzing::columns_of_blocks(bytes));

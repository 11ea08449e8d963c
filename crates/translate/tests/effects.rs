//! The quick way to an instruction's effects agrees with the decoder's tables, on every instruction
//! of random code.
use iced_x86::{Decoder, DecoderOptions, InstructionInfoFactory};
use memtrail_translate::effects::{effects, looked_up};

#[test]
fn quick_effects_agree_with_the_decoders_tables() {
    let mut seed = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    let mut infos = InstructionInfoFactory::new();
    let mut compared = 0;
    while compared < 400_000 {
        let bytes: Vec<u8> = (0..4).flat_map(|_| next().to_le_bytes()).collect();
        for insn in Decoder::with_ip(64, &bytes, 0x40_0000, DecoderOptions::NONE)
            .iter()
            .filter(|i| !i.is_invalid())
        {
            assert_eq!(
                effects(&insn, &mut infos),
                looked_up(&insn, &mut infos),
                "{insn:?} of {bytes:02x?}"
            );
            compared += 1;
        }
    }
}

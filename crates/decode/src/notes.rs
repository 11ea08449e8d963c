//! Notes as records.
use memtrail_model::{GapReason, Note, Thread};
use memtrail_ring::record as r;

/// What a record notes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Noted {
    Note(Note),
    /// The process was copied; `None` if that failed.
    Fork {
        child: Option<u32>,
    },
}

impl Noted {
    /// The number and the meaning of a record; `None` if it is no note, or an impossible one.
    pub fn parse(record: &[u64]) -> Option<(u64, Noted)> {
        let (&head, rest) = record.split_first()?;
        let (&number, words) = rest.split_first()?;
        let small = |word: u64| u32::try_from(word).ok();
        let note = match (head, words) {
            (r::ALLOC, &[hook, bytes, address]) => Note::Alloc {
                hook: small(hook)?,
                address,
                bytes,
            },
            (r::FREE, &[hook, address]) => Note::Free {
                hook: small(hook)?,
                address,
            },
            (r::REALLOC, &[hook, old, bytes, address]) => Note::Realloc {
                hook: small(hook)?,
                old,
                address,
                bytes,
            },
            (r::MAPPED, &[address, bytes, protection, source, offset]) => Note::Map {
                address,
                bytes,
                protection: small(protection)?,
                source: small(source)?,
                offset,
            },
            (r::UNMAPPED, &[address, bytes]) => Note::Unmap { address, bytes },
            (r::REMAPPED, &[old, old_bytes, address, bytes]) => Note::Remap {
                old,
                old_bytes,
                address,
                bytes,
            },
            (r::BREAK, &[address]) => Note::Break { address },
            (r::NAME, &[address, bytes, text]) => Note::Name {
                address,
                bytes,
                text: small(text)?,
            },
            (r::ENTER, &[text]) => Note::Enter { text: small(text)? },
            (r::LEAVE, &[text]) => Note::Leave { text: small(text)? },
            (r::WAIT, &[address, value]) => Note::Wait { address, value },
            (r::WOKEN, &[address, result]) => Note::Woken {
                address,
                result: result as i64,
            },
            (r::WAKE, &[address, result]) => Note::Wake {
                address,
                result: result as i64,
            },
            (r::STARTED, &[thread, cleared]) => Note::Start {
                thread: Some(Thread(small(thread)?)).filter(|_| thread != r::NO_THREAD),
                cleared,
            },
            (r::ENDED, &[status]) => Note::End { status: small(status)? },
            (r::GAP, &[begin, end, reason, instructions, accesses]) => {
                let known = |number: u64| Some(number).filter(|&n| n != r::NOT_KNOWN);
                // Time does not run backwards.
                end.checked_sub(begin)?;
                Note::Gap {
                    begin,
                    end,
                    reason: GapReason::from_number(reason)?,
                    instructions: known(instructions),
                    accesses: known(accesses),
                }
            }
            (r::FORKED, &[child]) => {
                let child = Some(small(child)?).filter(|&c| u64::from(c) != r::NO_PROCESS);
                return Some((number, Noted::Fork { child }));
            }
            _ => return None,
        };
        Some((number, Noted::Note(note)))
    }

    /// Whether a new image begins here: nothing of the address space before is left.
    pub fn is_new_image(note: &Note) -> bool {
        matches!(
            note,
            Note::Unmap {
                address: 0,
                bytes: u64::MAX
            }
        )
    }
}

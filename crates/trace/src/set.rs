//! The payload of a set: the streams of several threads as one.
//!
//! ```text
//! payload     := members:number heads:string begins:string length:number descriptors set
//! heads       := (first vector){8}     thread, process, first, accesses, begin, end, words, ids
//! begins      := (state stamps){members}
//! ```
//! Heads are those that the members' chunks would have; ids is what is added to the ids of blocks in a
//! member's events and state. State and stamps are those of a STREAM. The descriptors, `length` bytes, are
//! those of a STREAM as well; what is behind them says who has which event, and how parameters move
//! from member to member (`memtrail-merge`).
use crate::chunk::StreamHead;
use crate::known::Known;
use crate::leaves::Leaves;
use crate::reader::{Chunk, Reader};
use crate::stream::{put_begin, take_begin, Decoding, Encoding, Stamp, Stream, THOROUGH_BELOW};
use crate::varint::{put, Bad, Fields};
use crate::Error;
use memtrail_decode::State;
use memtrail_descriptor::{read_string, write_string, Events, Pack};
use memtrail_merge::{nest, Set};
use memtrail_ring::record::FIRST_BLOCK;
use std::io::{Read, Seek};

/// What a member has by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    pub head: StreamHead,
    /// Added to the ids of blocks in its events.
    pub ids: u32,
    pub state: State,
    pub stamps: Vec<Stamp>,
}

/// Threads whose streams are one set, in the order of its members.
#[derive(Clone, Debug)]
pub struct Members {
    pub members: Vec<Member>,
    pub set: Set,
}

const FIELDS: usize = 8;

fn fields(head: &StreamHead, ids: u32) -> [u64; FIELDS] {
    let [thread, process, ids] = [head.thread, head.process, ids].map(u64::from);
    [
        thread,
        process,
        head.first,
        head.accesses,
        head.begin,
        head.end,
        head.words,
        ids,
    ]
}

impl Members {
    /// The bytes that decoding needs room for.
    pub fn raw_bytes(&self) -> u64 {
        let begins = self
            .members
            .iter()
            .map(|m| 16 + m.state.held.len() + m.state.captured.len());
        8 * (self.set.size() + begins.sum::<usize>()) as u64
    }

    /// The payload of the chunk.
    pub fn encode(&self, leaves: &Leaves) -> Vec<u8> {
        let mut encoding = Encoding::default();
        let small = self.set.events().len() < THOROUGH_BELOW;
        let pack = if small { &encoding.thorough } else { &encoding.quick };
        let mut out = Vec::new();
        put(&mut out, self.members.len() as u64);
        let heads: Vec<[u64; FIELDS]> = self.members.iter().map(|m| fields(&m.head, m.ids)).collect();
        let mut columns = Vec::new();
        for field in 0..FIELDS {
            let column: Vec<u64> = heads.iter().map(|h| h[field]).collect();
            put(&mut columns, column[0]);
            nest::encode(&column, &mut columns);
        }
        write_string(&mut out, &columns, pack);
        let mut begins = Vec::new();
        for member in &self.members {
            put_begin(&member.state, &member.stamps, member.head.begin, &mut begins);
        }
        write_string(&mut out, &begins, pack);
        let mut descriptors = Vec::new();
        encoding
            .encoder
            .encode(self.set.events(), leaves, pack, &mut descriptors);
        put(&mut out, descriptors.len() as u64);
        out.extend_from_slice(&descriptors);
        memtrail_merge::encode(&self.set, pack, &mut out);
        out
    }
}

const NO_STRING: Bad = "a string of a set cannot be read";

fn string(fields: &mut Fields<'_>, most: usize, pack: &impl Pack) -> Result<Vec<u8>, Bad> {
    let mut string = Vec::new();
    let longest = most.saturating_mul(15).saturating_add(1);
    read_string(&mut fields.0, longest, pack, &mut string).map_err(|_| NO_STRING)?;
    Ok(string)
}

/// The heads of a set's members, and what is added to their ids.
pub(crate) fn heads(payload: &[u8], raw_bytes: u32) -> Result<Vec<(StreamHead, u32)>, Bad> {
    let most = raw_bytes as usize / 8;
    take_heads(&mut Fields(payload), most, &Decoding::default().zstd)
}

fn take_heads(payload: &mut Fields<'_>, most: usize, pack: &impl Pack) -> Result<Vec<(StreamHead, u32)>, Bad> {
    let members: usize = payload.small()?;
    if members == 0 || members > most {
        return Err("a set of an impossible number of members");
    }
    let bytes = string(payload, most, pack)?;
    let mut rest = Fields(&bytes);
    let mut columns = Vec::with_capacity(FIELDS);
    for _ in 0..FIELDS {
        let first = rest.number()?;
        let column = nest::decode(&mut rest.0, first, members).filter(|c| c.len() == members);
        columns.push(column.ok_or("the heads of a set cannot be read")?);
    }
    rest.end()?;
    let head = |m: usize| {
        let small = |field: usize| u32::try_from(columns[field][m]).map_err(|_| "a number is out of range");
        let head = StreamHead {
            thread: small(0)?,
            process: small(1)?,
            first: columns[2][m],
            accesses: columns[3][m],
            begin: columns[4][m],
            end: columns[5][m],
            words: columns[6][m],
        };
        Ok((head, small(7)?))
    };
    (0..members).map(head).collect()
}

fn read(payload: &[u8], leaves: &Leaves, most: usize, decoding: &mut Decoding) -> Result<Members, Bad> {
    let mut rest = Fields(payload);
    let Decoding { decoder, zstd } = decoding;
    let heads = take_heads(&mut rest, most, zstd)?;
    let begins = string(&mut rest, most, zstd)?;
    let mut begins = Fields(&begins);
    let member = |&(head, ids): &(StreamHead, u32)| {
        let (state, stamps) = take_begin(&mut begins, head.begin)?;
        Ok(Member {
            head,
            ids,
            state,
            stamps,
        })
    };
    let members: Vec<Member> = heads.iter().map(member).collect::<Result<_, Bad>>()?;
    begins.end()?;
    let length = rest.number()?;
    let descriptors = rest.bytes(length)?;
    let mut events = Events::default();
    let decoded = decoder.decode(descriptors, leaves, zstd, most, &mut events);
    decoded.map_err(|_| "the descriptors make no sense")?;
    let set = memtrail_merge::decode(rest.0, events, members.len() as u32, most, zstd);
    let set = set.map_err(|_| "what a set says of its members makes no sense")?;
    Ok(Members { members, set })
}

/// The stream of one member, in place of what is in `stream`.
pub(crate) fn read_member(
    payload: &[u8],
    member: u32,
    leaves: &Leaves,
    most: usize,
    decoding: &mut Decoding,
    stream: &mut Stream,
) -> Result<(), Bad> {
    let Members { mut members, set } = read(payload, leaves, most, decoding)?;
    if member as usize >= members.len() {
        return Err("a set has fewer members than its head says");
    }
    let own = members.swap_remove(member as usize);
    let shift = |key: u32| match u64::from(key) < FIRST_BLOCK {
        true => key,
        false => key.saturating_add(own.ids),
    };
    stream.events = set.member(member, shift);
    stream.state = own.state.renamed(shift);
    stream.stamps = own.stamps;
    Ok(())
}

/// The set in a chunk; a stream by itself is one of one member.
pub fn set<R: Read + Seek>(reader: &mut Reader<R>, known: &Known, chunk: &Chunk) -> Result<Members, Error> {
    let payload = reader.payload(chunk)?;
    if chunk.member.is_none() {
        let stream = crate::stream(reader, known, chunk)?;
        let member = Member {
            head: chunk.head.stream,
            ids: 0,
            state: stream.state,
            stamps: stream.stamps,
        };
        return Ok(Members {
            members: vec![member],
            set: Set::single(stream.events),
        });
    }
    let most = chunk.head.raw_bytes as usize / 8;
    let read = read(&payload, &known.leaves, most, &mut Decoding::default());
    read.map_err(|what| Error::Damaged { at: chunk.at, what })
}

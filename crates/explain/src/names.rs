//! What things are called, in this run and in any other of the same program.
//!
//! An instruction's address, and the number of its line, change with every build. What stays are
//! the words of the source: the function, the expression, whether it is read or written, and the
//! order in which equal ones stand in the code. So these are what things are told apart by here.
use crate::words::plain_function;
use memtrail_report::format::base;
use memtrail_report::{is_library, kind_word, CallPath, Dimension, Entry, Object, Reference, ResultSet, Row};

/// The entries of a row.
#[derive(Clone, Copy)]
pub struct Named<'s> {
    set: &'s ResultSet,
    row: &'s Row,
}

/// All rows of a set.
pub fn named_rows(set: &ResultSet) -> impl Iterator<Item = (Named<'_>, &Row)> {
    set.rows.iter().map(move |row| (Named { set, row }, row))
}

impl<'s> Named<'s> {
    pub fn entry(&self, dimension: Dimension) -> Option<&'s Entry> {
        let at = self.set.dimensions.iter().position(|&d| d == dimension)?;
        self.set.entries[at].get(self.row.key[at] as usize)
    }

    pub fn reference(&self) -> Option<&'s Reference> {
        match self.entry(Dimension::Ref)? {
            Entry::Ref(reference) => Some(reference),
            _ => None,
        }
    }

    pub fn object(&self) -> Option<&'s Object> {
        match self.entry(Dimension::Object)? {
            Entry::Object(object) => Some(object),
            _ => None,
        }
    }

    pub fn path(&self) -> Option<&'s CallPath> {
        match self.entry(Dimension::Callpath)? {
            Entry::Callpath(path) => Some(path),
            _ => None,
        }
    }
}

/// The function of a reference: `memmove` of a library, or as the source has it.
pub fn function_of(reference: &Reference) -> String {
    match &reference.function {
        Some(name) => plain_function(name).to_string(),
        None => reference.address(),
    }
}

/// What is accessed and how: `B[k][j]`, `spill`, `memmove` of a library.
pub fn words_of(reference: &Reference) -> String {
    if reference.is_foreign() {
        return function_of(reference);
    }
    let bare = reference.source.clone().or_else(|| reference.variable.clone());
    let words = bare.or_else(|| reference.what.clone());
    words.unwrap_or_else(|| format!("{} without a name", kind_word(reference.kind)))
}

/// The innermost call of a path that the program made itself, not a library: `main (a.c:3)`.
pub fn own_call(path: &CallPath) -> Option<&str> {
    let calls = path.calls.iter().zip(&path.sites).rev();
    let module = |site: &str| site.split('+').next().unwrap_or("").to_string();
    let mut own = calls.filter(|(_, site)| !is_library(&module(site)));
    own.next().map(|(call, _)| call.as_str())
}

/// An object in any build: its name without the line that allocated it.
pub fn object_key(object: &Object) -> String {
    let name = match object.name.rsplit_once(" (") {
        // `B (slow.c:12)`, `main (slow.c:12)`, `push (prog+0x1150)`.
        Some((name, place)) if place.ends_with(')') && object.offset.is_none() => {
            let file = place.split([':', '+']).next().unwrap_or(place);
            format!("{name} ({})", base(file).trim_end_matches(')'))
        }
        _ => object.name.clone(),
    };
    format!("{name}, {}", object.kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_known_without_their_lines() {
        let object = |name: &str, offset| Object {
            name: name.into(),
            kind: "heap".into(),
            offset,
            ..Object::default()
        };
        assert_eq!(object_key(&object("B (slow.c:12)", None)), "B (slow.c), heap");
        assert_eq!(object_key(&object("B (slow.c:77)", None)), "B (slow.c), heap");
        assert_eq!(object_key(&object("push (prog+0x1150)", None)), "push (prog), heap");
        assert_eq!(object_key(&object("table", Some(8))), "table, heap");
        assert_eq!(
            object_key(&object("[stack of thread 0]", None)),
            "[stack of thread 0], heap"
        );
    }

    #[test]
    fn a_librarys_accesses_are_those_of_whoever_called_it() {
        let path = CallPath {
            calls: ["_start", "main (a.c:3)", "qsort (libc.so.6+0x10)"]
                .map(String::from)
                .to_vec(),
            sites: ["a.out+0x1", "a.out+0x1150", "libc.so.6+0x10"]
                .map(String::from)
                .to_vec(),
        };
        assert_eq!(own_call(&path), Some("main (a.c:3)"));
        assert_eq!(own_call(&CallPath::default()), None);
    }
}

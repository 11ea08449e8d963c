//! What the numbers in notes stand for.
use crate::{HookKind, Message};
use std::collections::HashMap;

/// A function whose calls are noted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hook<'n> {
    pub kind: HookKind,
    /// The user named it.
    pub by_user: bool,
    pub address: u64,
    /// Its symbol.
    pub name: &'n [u8],
}

/// A hook with the number of its name.
#[derive(Clone, Copy, Debug)]
struct Entry {
    kind: HookKind,
    by_user: bool,
    address: u64,
    text: u32,
}

/// Texts and hooks of a recording, by their numbers.
#[derive(Clone, Debug, Default)]
pub struct Names {
    texts: HashMap<u32, Vec<u8>>,
    hooks: HashMap<u32, Entry>,
}

impl Names {
    /// Takes what a message defines.
    pub fn learn(&mut self, message: &Message) {
        match message {
            Message::Text { id, text } => {
                self.texts.insert(*id, text.clone());
            }
            Message::Hook {
                id,
                kind,
                by_user,
                address,
                text,
            } => {
                let entry = Entry {
                    kind: *kind,
                    by_user: *by_user,
                    address: *address,
                    text: *text,
                };
                self.hooks.insert(*id, entry);
            }
            _ => {}
        }
    }

    /// All that messages define.
    pub fn of<'m>(messages: impl IntoIterator<Item = &'m Message>) -> Names {
        let mut names = Names::default();
        messages.into_iter().for_each(|message| names.learn(message));
        names
    }

    pub fn text(&self, id: u32) -> Option<&[u8]> {
        self.texts.get(&id).map(Vec::as_slice)
    }

    pub fn hook(&self, id: u32) -> Option<Hook<'_>> {
        let entry = self.hooks.get(&id)?;
        Some(Hook {
            kind: entry.kind,
            by_user: entry.by_user,
            address: entry.address,
            name: self.text(entry.text)?,
        })
    }
}

//! `report`: one page with everything.
//!
//! Three replays: one by reference, object, loop and thread with evictors and the map; one by call
//! path; one for miss-ratio curves and reuse distances. Each is what a command of its own does, so
//! that the page says what those say.
use super::replayed;
use crate::files::Bundled;
use crate::input::Input;
use crate::output;
use crate::say;
use crate::sim;
use crate::sim::args::{CacheArgs, Charge, SimArgs};
use crate::tables::args::{refuse_for_saved, SymbolArgs, TableArgs};
use crate::tables::measured;
use crate::tables::results::objects_of;
use crate::tables::run::Wants;
use clap::Args as ArgGroup;
use memtrail_explain::html::{sections, shown, Inputs, Page};
use memtrail_report::format::bytes;
use memtrail_report::{Dimension, ResultSet};
use memtrail_symbols::{Store, Symbols};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// What the main tables are told apart by.
const BY: [Dimension; 4] = [Dimension::Ref, Dimension::Object, Dimension::Loop, Dimension::Thread];

#[derive(Clone, Debug, ArgGroup)]
pub struct ReportArgs {
    #[command(flatten)]
    pub caches: CacheArgs,
    #[command(flatten)]
    pub symbols: SymbolArgs,
    /// Where to write the page.
    #[arg(short, long, value_name = "FILE", default_value = "report.html")]
    pub output: PathBuf,
    /// The recording, or what was saved.
    pub file: PathBuf,
}

pub fn command(args: &ReportArgs) -> anyhow::Result<u8> {
    output::check(Some(&args.output))?;
    let file = args.file.display().to_string();
    let (page, whole) = match Input::open(&args.file)? {
        Input::Saved(set) => {
            refuse_for_saved(&args.file, &args.caches, &BTreeSet::new())?;
            (page(args, &file, &set, |inputs| inputs), Ok(0))
        }
        Input::Recording(mut reader) => {
            let table = TableArgs::of(&args.file, &args.caches, &args.symbols);
            let wants = Wants {
                evictors: Some(Charge::Owner),
                map: true,
                ..Wants::default()
            };
            let (set, found, whole) = measured(wants, &table, &BY, &mut reader)?;
            let (calls, _) = replayed(&table, &[Dimension::Callpath, Dimension::Function], &mut reader)?;
            let curves = curves_of(&args.file)?;
            let (object_of, objects) = objects_of(&found);
            let page = page(args, &file, &set, |inputs| Inputs {
                calls: Some(&calls),
                curves: Some(&curves),
                map: found.map.as_ref(),
                object_of,
                objects,
                ..inputs
            });
            (page, whole)
        }
    };
    let html = page.html();
    output::write(Some(&args.output), &html)?;
    say::line(format_args!(
        "{}: {}, {} views; open it in a browser",
        args.output.display(),
        bytes(html.len() as u64),
        page.sections.len()
    ));
    whole
}

/// A page of a set, and of what else there is.
fn page<'i>(args: &ReportArgs, file: &'i str, set: &'i ResultSet, more: impl FnOnce(Inputs<'i>) -> Inputs<'i>) -> Page {
    // As long as the program runs there is something to name.
    let store: &'static Store = Box::leak(Box::default());
    let symbols = Symbols::new(store, Box::new(Bundled), args.symbols.options());
    let symbols: &'static Symbols<'static> = Box::leak(Box::new(symbols));
    let sources: &'static dyn Fn(&str) -> Result<std::rc::Rc<str>, String> = Box::leak(Box::new(|file: &str| {
        symbols.source(file).map_err(|reason| reason.to_string())
    }));
    let inputs = more(Inputs {
        set,
        calls: None,
        curves: None,
        map: None,
        object_of: Vec::new(),
        objects: Vec::new(),
        sources,
        file,
    });
    let command = set.run.sources.first().map(|source| source.command.join(" "));
    let command = command
        .filter(|command| !command.is_empty())
        .unwrap_or_else(|| file.to_string());
    Page {
        title: shown(&format!("memtrail: {command}")),
        sections: sections(&inputs),
    }
}

/// Miss-ratio curves and reuse distances.
fn curves_of(file: &Path) -> anyhow::Result<ResultSet> {
    let mut args = SimArgs::of(file.to_path_buf(), "");
    args.caches.caches.clear();
    args.many.curve = true;
    args.many.reuse = true;
    args.many.line = 64;
    sim::of_file(&args, file)
}

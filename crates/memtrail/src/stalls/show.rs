//! What `stalls` prints.
use super::{Cause, Charged, CoreSpec, View, STALLS};
use memtrail_report::format::{percent, ratio, thousands};
use memtrail_report::{json, text, Align, Columns, Row};
use serde_json::{json, Map, Value};
use std::fmt::Write;

/// How long it would take with ideal objects.
pub struct Ideal {
    pub name: String,
    /// In the list of those with most stall cycles: this one and all before it.
    pub place: Option<usize>,
    pub cycles: u64,
}

pub struct Report<'r> {
    pub spec: &'r CoreSpec,
    pub command: Vec<String>,
    pub file: String,
    pub cycles: u64,
    pub threads: usize,
    pub instructions: u64,
    pub mispredicted: u64,
    pub total: Charged,
    /// Levels that data pass through.
    pub levels: usize,
    pub view: &'r View<'r>,
    pub ideal: Option<Vec<Ideal>>,
    pub reasons: Vec<String>,
}

/// What cycles go to, with this many levels of data.
pub fn causes(levels: usize) -> Vec<Cause> {
    let first = [Cause::Base, Cause::Execute, Cause::Branch, Cause::Fetch, Cause::Stores];
    let levels = (0..=levels as u8).map(Cause::Level);
    first.into_iter().chain(levels).collect()
}

impl Report<'_> {
    /// The number in a column of a row.
    fn column(&self, row: &Row, name: &str) -> u64 {
        let at = self.view.hierarchy().levels.iter().position(|level| level.name == name);
        at.map_or(0, |at| row.levels[at].misses)
    }

    fn sum(&self, name: &str) -> u64 {
        self.view.rows.iter().map(|row| self.column(row, name)).sum()
    }

    fn first_level(&self) -> &str {
        &self.view.hierarchy().levels[0].name
    }

    fn last_level(&self) -> &str {
        &self.view.hierarchy().levels[self.levels - 1].name
    }

    /// For people, and for programs.
    fn words(&self, cause: Cause) -> (String, String) {
        let name = |at: usize| &self.view.hierarchy().levels[at].name;
        let (long, short) = match cause {
            Cause::Base => ("something commits", "base"),
            Cause::Execute => ("execution, waiting for no access", "execution"),
            Cause::Branch => ("branches not foreseen", "branches"),
            Cause::Fetch => ("instructions not in their cache", "instructions"),
            Cause::Stores => ("stores: the queue is full", "stores"),
            Cause::Level(level) if usize::from(level) < self.levels => {
                let name = name(level.into());
                return (format!("loads that {name} serves"), name.clone());
            }
            Cause::Level(_) => ("loads that memory serves", "memory"),
        };
        (long.to_string(), short.to_string())
    }

    fn ipc(&self) -> f64 {
        ratio(self.instructions, self.cycles).unwrap_or(0.0)
    }

    pub fn text(&self, top: usize) -> String {
        let mut out = String::new();
        // Writing to a string cannot fail.
        let _ = writeln!(out, "core: {} ({})", self.spec.name, self.spec.about);
        let time = self
            .spec
            .ghz
            .map(|ghz| format!(" ({:.3} ms at {ghz} GHz)", self.cycles as f64 / ghz / 1e6));
        let _ = writeln!(
            out,
            "cycles: {}{}   instructions: {}   IPC: {:.2}   branches not foreseen: {}",
            thousands(self.cycles),
            time.unwrap_or_default(),
            thousands(self.instructions),
            self.ipc(),
            thousands(self.mispredicted)
        );
        if self.threads > 1 {
            let threads = self.threads;
            let _ = writeln!(
                out,
                "{threads} threads, each on a core of its own: cycles are the longest one's; below, all of them"
            );
        }
        let mut stack = Columns::new([
            ("\nwhere cycles go", Align::Left),
            ("cycles", Align::Right),
            ("%", Align::Right),
        ]);
        let total = self.total.total();
        for cause in causes(self.levels) {
            let cycles = self.total.of(cause);
            if cycles > 0 {
                stack.row(vec![self.words(cause).0, thousands(cycles), percent(cycles, total)]);
            }
        }
        let _ = writeln!(out, "{stack}");
        out += &self.table(top);
        out += &self.ideals();
        out
    }

    fn table(&self, top: usize) -> String {
        let (misses, last) = (self.first_level(), self.last_level());
        let mut head = text::name_heads(self.view);
        let figures = [
            "accesses".into(),
            format!("{misses} misses"),
            "%".into(),
            format!("{last} misses"),
        ];
        let more = [
            "stall cycles".to_string(),
            "% of stalls".into(),
            "% of cycles".into(),
            "per miss".into(),
        ];
        head.extend(figures.into_iter().chain(more).map(|name| (name, Align::Right)));
        let mut table = Columns::new(head);
        let (all_misses, all_stalls, total) = (self.sum(misses), self.sum(STALLS), self.total.total());
        let rows = self.view.rows.iter().filter(|row| self.column(row, "accesses") > 0);
        for row in rows.take(top) {
            let (missed, stalls) = (self.column(row, misses), self.column(row, STALLS));
            let mut texts = text::row_names(self.view, row);
            texts.push(thousands(self.column(row, "accesses")));
            texts.push(thousands(missed));
            texts.push(percent(missed, all_misses));
            texts.push(thousands(self.column(row, last)));
            texts.push(thousands(stalls));
            texts.push(percent(stalls, all_stalls));
            texts.push(percent(stalls, total));
            texts.push(ratio(stalls, missed).map_or_else(|| "-".to_string(), |per| format!("{per:.1}")));
            table.row(texts);
        }
        table.to_string()
    }

    fn ideals(&self) -> String {
        let Some(ideals) = &self.ideal else {
            return String::new();
        };
        let heads = [
            ("\nif misses took one cycle", Align::Left),
            ("cycles", Align::Right),
            ("speed-up", Align::Right),
        ];
        let mut table = Columns::new(heads);
        for ideal in ideals {
            let name = match ideal.place {
                Some(1) | None => ideal.name.clone(),
                Some(_) => format!("and of {}", ideal.name),
            };
            let faster = ratio(self.cycles, ideal.cycles).unwrap_or(1.0);
            table.row(vec![name, thousands(ideal.cycles), format!("{faster:.3}")]);
        }
        table.to_string()
    }

    pub fn json(&self, top: usize) -> Value {
        let stack: Map<String, Value> = causes(self.levels)
            .into_iter()
            .map(|cause| (self.words(cause).1, self.total.of(cause).into()))
            .collect();
        let subject = self.view.by.first().copied();
        let key = match subject.map_or("object", |subject| subject.word()) {
            "process" => "processes".to_string(),
            word => format!("{word}s"),
        };
        let rows = self
            .view
            .rows
            .iter()
            .filter(|row| self.column(row, "accesses") > 0 || row.levels.iter().any(|l| l.misses > 0));
        let rows: Vec<Value> = rows.take(top).map(|row| self.row(row)).collect();
        let mut value = json!({
            "schema_version": json::SCHEMA_VERSION,
            "command": self.command,
            "file": self.file,
            "core": self.spec.name,
            "cycles": self.cycles,
            "instructions": self.instructions,
            "ipc": self.ipc(),
            "threads": self.threads,
            "mispredicted": self.mispredicted,
            "stall_cycles": self.sum(STALLS),
            "stack": stack,
            "reasons": self.reasons,
        });
        value[key] = rows.into();
        if let Some(ideals) = &self.ideal {
            let named = ideals.first().filter(|ideal| ideal.place.is_none());
            if let Some(named) = named {
                value["ideal_cycles"] = named.cycles.into();
            }
            let curve = ideals.iter().filter(|ideal| ideal.place.is_some());
            let point = |ideal: &Ideal| json!({"k": ideal.place, "object": ideal.name, "cycles": ideal.cycles});
            value["ideal_top"] = curve.map(point).collect();
            value["perfect_cycles"] = ideals.last().map(|ideal| ideal.cycles).into();
        }
        value
    }

    fn row(&self, row: &Row) -> Value {
        let subject = self.view.by[0];
        let mut value = json::row_names(self.view, row, subject);
        let mut put = |key: &str, item: Value| drop(value.insert(key.to_string(), item));
        let cause = |cause: Cause| {
            let at = self.column(row, &format!("{cause:?}"));
            (self.words(cause).1, at.into())
        };
        let stack: Map<String, Value> = causes(self.levels).into_iter().map(cause).collect();
        let (misses, stalls) = (self.column(row, self.first_level()), self.column(row, STALLS));
        let levels = self.view.hierarchy().levels.iter().take(self.levels);
        let by_level: Map<String, Value> = levels
            .map(|level| (level.name.clone(), self.column(row, &level.name).into()))
            .collect();
        put("accesses", self.column(row, "accesses").into());
        put("misses", misses.into());
        put("level_misses", by_level.into());
        put("miss_share", ratio(misses, self.sum(self.first_level())).into());
        put("stall_cycles", stalls.into());
        put("stall_share", ratio(stalls, self.sum(STALLS)).into());
        put("stack", stack.into());
        if !value.contains_key("name") {
            let name = text::row_names(self.view, row).join(" ");
            value.insert("name".to_string(), name.into());
        }
        value.into()
    }
}

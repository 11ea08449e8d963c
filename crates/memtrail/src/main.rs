//! memtrail: records every memory access of unmodified programs.
//!
//! Glue only: arguments in, crates called, words out. Our own words go to stderr with a prefix;
//! the target's streams are untouched and its exit status is passed through. Statuses of our
//! own: 125 our failure, 126 the program cannot be executed, 127 it was not found.
#![forbid(unsafe_code)]

mod args;
mod attach;
mod calibrate;
mod demo;
mod doctor;
mod dump;
mod elf;
mod export;
mod failure;
mod import;
mod info;
mod input;
mod live;
mod output;
mod overhead;
mod points;
mod progress;
mod record;
mod replay;
mod sampling;
mod say;
mod sim;
mod stalls;
mod tables;
mod whatif;

use args::{Args, Task};
use clap::Parser;
use std::process::ExitCode;
use tables::Table;

fn main() -> ExitCode {
    memtrail_tracee::survive_file_limit();
    memtrail_tracee::keep_freed_memory();
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => {
            // Printing help can only fail if nobody listens.
            let _ = error.print();
            let failed = error.use_stderr();
            return ExitCode::from(if failed { failure::OURS } else { 0 });
        }
    };
    let done = match args.task {
        Some(task) => run(task),
        None => record::brief(args.command),
    };
    match done {
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            say::error(&error);
            ExitCode::from(failure::status(&error))
        }
    }
}

fn run(task: Task) -> anyhow::Result<u8> {
    match task {
        Task::Record(args) => record::command(&args),
        Task::Attach(args) => attach::command(&args),
        Task::Info(args) => info::info(&args),
        Task::Dump(args) => dump::command(&args),
        Task::Sim(args) => sim::command(&args),
        Task::Refs(args) => tables::command(Table::Refs, &args),
        Task::Evictors(args) => tables::command(Table::Evictors(args.charge), &args.table),
        Task::Objects(args) => tables::command(Table::Objects, &args),
        Task::Lines(args) => tables::command(Table::Lines, &args),
        Task::Competition(args) => tables::command(Table::Competition, &args),
        Task::Whatif(args) => whatif::command(&args),
        Task::Advise(args) => whatif::advise::command(&args),
        Task::Bbv(args) => sampling::bbv(&args),
        Task::Simpoints(args) => sampling::simpoints(&args),
        Task::Estimate(args) => sampling::command(&args),
        Task::Stalls(args) => stalls::command(&args),
        Task::Calibrate(args) => calibrate::command(&args),
        Task::Check(args) => info::check(&args),
        Task::Import(args) => import::command(&args),
        Task::Export(args) => export::command(&args),
        Task::Replay(args) => replay::command(&args),
        Task::Doctor(args) => doctor::command(&args),
        Task::Points(args) => points::command(&args),
        Task::Overhead(args) => overhead::command(&args),
        Task::Demo(args) => demo::command(&args),
        Task::DemoKernel => demo::kernel(),
    }
}

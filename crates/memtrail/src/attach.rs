//! `attach`: record a process that runs already, for a while.
//!
//! Everything that can fail for reasons of ours (the path, the disk, the process's state) is tried
//! before the process is touched.
use crate::args::{AttachArgs, ProbeMode, RecordArgs};
use crate::failure::OURS;
use crate::record::{self, Done, Output, Stored};
use crate::say;
use memtrail_collect::{Notice, Options, Stop, Until};
use memtrail_report::format::{bytes, thousands};
use memtrail_tracee::{refusal, tell_and_close, xsave_table, Error};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// `memtrail attach`.
pub fn command(args: &AttachArgs) -> anyhow::Result<u8> {
    let pid = args.pid;
    if let Some(refusal) = refusal(pid, args.allow_seccomp) {
        return Err(Error::Refused(refusal).into());
    }
    let like = as_record(args);
    let xsave = xsave_table();
    let stores = args.probes != ProbeMode::None;
    let path = like.output.clone().unwrap_or_else(|| default_path(pid));
    let output = match stores {
        true => Some(Output::create(path, args.force)?),
        false => None,
    };
    let options = Options {
        probes: args.probes.into(),
        max_block: like.max_block,
        paths: like.paths(),
        discard: false,
        follow: true,
    };
    let until = Until {
        accesses: args.accesses,
        time: args.seconds,
    };
    let mut notice = |notice| match notice {
        Notice::Attached { .. } => ready(args),
        Notice::LetGo { pid: other, .. } if other != pid => {
            say::line(format_args!("process {other}, a child of it, runs natively again"));
        }
        other => record::notice(other),
    };
    let store = Stored::start(&like, pid, Default::default(), output, &xsave)?;
    let done = store.fill(|watched| {
        memtrail_collect::attach(pid, &options, until, &xsave, watched, &mut notice, |session| {
            session.with_allocators(args.objects.allocators())
        })
    })?;
    finish(pid, &done)
}

/// What `record` would have been told.
fn as_record(args: &AttachArgs) -> RecordArgs {
    let line = std::fs::read(format!("/proc/{}/cmdline", args.pid)).unwrap_or_default();
    let words = line.split(|&b| b == 0).map(|w| OsString::from_vec(w.to_vec()));
    let mut command: Vec<OsString> = words.collect();
    command.pop();
    if command.is_empty() {
        command.push(format!("process {}", args.pid).into());
    }
    RecordArgs {
        output: args.output.clone(),
        force: args.force,
        probes: args.probes,
        verify: args.verify,
        memory: args.memory,
        objects: args.objects.clone(),
        ..RecordArgs::of(command)
    }
}

fn default_path(pid: i32) -> PathBuf {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    let name = name.trim_end().replace('/', "_");
    PathBuf::from(format!("memtrail.{name}.{pid}.mtr"))
}

/// All threads are recorded from here on.
fn ready(args: &AttachArgs) {
    let pid = args.pid;
    match args.ready_fd {
        Some(fd) => tell_and_close(fd, b"ready\n"),
        None => say::line(format_args!("attached to process {pid}; ^C lets it go")),
    }
}

fn finish(pid: i32, done: &Done) -> anyhow::Result<u8> {
    if done.outcome.drained.failure.is_some() {
        record::explain_failure(done);
        return Ok(OURS);
    }
    match done.outcome.stopped {
        None => say::line(format_args!("process {pid} has ended")),
        Some(Stop::Enough | Stop::Interrupted | Stop::Terminated) => {
            say::line(format_args!("process {pid} runs natively again"));
        }
    }
    if let Some((path, size)) = &done.file {
        let accesses = thousands(done.totals.accesses);
        let path = path.display();
        say::line(format_args!("{accesses} accesses in {path} ({})", bytes(*size)));
        say::line(format_args!("next: memtrail info {path}"));
    }
    Ok(0)
}

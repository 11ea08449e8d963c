//! Ranks of a parallel job: each records a file of its own, and together they make one of them.
//!
//! `mpirun -n 4 memtrail record -o run.mtr -- ./app` starts four recorders that know nothing of each
//! other but their rank and their number. Each records to `run.mtr.rank.N`; when its program has
//! ended, it takes its part in merging (`memtrail-ranks`), and rank 0 ends up with `run.mtr`.
//! A recorder that is told to end, or fails, leaves its file as it is: others notice that it is
//! gone, and go on without it.
use crate::args::RecordArgs;
use crate::info::{self, bits_per_access};
use crate::say;
use anyhow::{bail, Context};
use memtrail_merge::Directory;
use memtrail_ranks::{expand_name, gather, own_file, Place};
use memtrail_report::format::{bytes, thousands};
use memtrail_trace::{Ending, Ranks};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long to wait for a rank that has not even begun when another one has ended.
const PATIENCE: Duration = Duration::from_secs(60);

/// This rank, and where its recording goes.
#[derive(Debug)]
pub struct Job {
    place: Place,
    /// The rank's own recording.
    own: PathBuf,
    /// What all are merged to, if they are.
    merged: Option<(PathBuf, u32, Directory)>,
}

impl Job {
    /// The job that this process is a rank of, if it is one of any.
    pub fn find(args: &RecordArgs) -> anyhow::Result<Option<Job>> {
        let Some(place) = Place::find(args.rank_var.as_deref(), |name| std::env::var_os(name))? else {
            return Ok(None);
        };
        let output = args.output.clone().unwrap_or_else(|| default_name(args));
        let (name, has_rank) = expand_name(&output, place.rank);
        if has_rank {
            return Ok(Some(Job {
                place,
                own: name,
                merged: None,
            }));
        }
        let own = own_file(&name, place.rank);
        let Some(size) = place.size.filter(|_| !args.no_merge) else {
            return Ok(Some(Job {
                place,
                own,
                merged: None,
            }));
        };
        if name.exists() && !args.force {
            bail!("{} exists; use -f to overwrite it", name.display());
        }
        let directory = Directory::join(&name, place.rank, PATIENCE)
            .with_context(|| format!("rank {} cannot take part in merging", place.rank))?;
        Ok(Some(Job {
            place,
            own,
            merged: Some((name, size, directory)),
        }))
    }

    /// Where this rank records.
    pub fn own(&self) -> &Path {
        &self.own
    }

    /// Whether the rank's own recording is an intermediate one, which may be overwritten.
    pub fn is_merged(&self) -> bool {
        self.merged.is_some()
    }

    pub fn ranks(&self) -> Ranks {
        Ranks::one(self.place.rank)
    }

    /// The recording of this rank is complete: takes part in merging. The last one tells the user.
    /// Launchers end a job in which a rank has `failed`.
    pub fn merge(self, failed: bool) -> anyhow::Result<()> {
        let Some((out, size, directory)) = self.merged else {
            return Ok(());
        };
        let rank = self.place.rank;
        let gathered = gather(directory, &out, rank, size)
            .with_context(|| format!("rank {rank}: cannot merge; {} is its recording", self.own.display()))?;
        for lost in &gathered.lost {
            let file = own_file(&out, *lost);
            say::line(format_args!(
                "rank {lost} has ended without its part: what it recorded, if anything, is in {}",
                file.display()
            ));
        }
        let Some(file_bytes) = gathered.size else {
            if failed {
                say::line(format_args!(
                    "rank {rank} has failed; should the job be ended before it is merged, \
                     memtrail merge {0}.rank.* {0}.part.* -o {0} merges what there is",
                    out.display()
                ));
            }
            return Ok(());
        };
        let reader = info::open(&out)?;
        let Ending::Complete(totals) = reader.ending() else {
            bail!("{} is not whole", out.display());
        };
        say::line(format_args!(
            "{} accesses of {} ranks in {} ({}, {:.2} bits each)",
            thousands(totals.accesses),
            reader.header().ranks.len(),
            out.display(),
            bytes(file_bytes),
            bits_per_access(file_bytes, totals.accesses),
        ));
        say::line(format_args!("next: memtrail info {}", out.display()));
        Ok(())
    }

    /// The rank's recording stays by itself: says where it is, and how to merge it.
    pub fn leave(self) {
        if let Some((out, _, directory)) = self.merged {
            directory.leave();
            say::line(format_args!(
                "rank {} stays in {}; memtrail merge {}.rank.* -o {} merges those that there are",
                self.place.rank,
                self.own.display(),
                out.display(),
                out.display()
            ));
        }
    }
}

/// A name that all ranks of a job come to by themselves.
fn default_name(args: &RecordArgs) -> PathBuf {
    let app = Path::new(&args.command[0]).file_name().unwrap_or_default();
    let named = ["PMIX_NAMESPACE", "PMI_JOBID", "SLURM_JOB_ID"];
    let job = named.iter().find_map(|name| std::env::var(name).ok());
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let job: String = job.unwrap_or_else(|| std::os::unix::process::parent_id().to_string());
    let mut name = OsString::from("memtrail.");
    name.push(app);
    name.push(format!(".{}.mtr", job.chars().map(plain).collect::<String>()));
    name.into()
}

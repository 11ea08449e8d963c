//! Which rank of a parallel job a process is, as those who start jobs tell in the environment.
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Variables that hold a rank, and those that hold the number of ranks: Open MPI, PMIx (which has no
/// number of ranks), MPICH and others that speak PMI, Slurm.
const VARIABLES: [(&str, &[&str]); 4] = [
    ("OMPI_COMM_WORLD_RANK", &["OMPI_COMM_WORLD_SIZE"]),
    ("PMIX_RANK", &["PMIX_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS"]),
    ("PMI_RANK", &["PMI_SIZE"]),
    ("SLURM_PROCID", &["SLURM_NTASKS", "SLURM_NPROCS"]),
];

/// A rank, and of how many if that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub rank: u32,
    pub size: Option<u32>,
}

/// Why the rank is not known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RankError {
    #[error("--rank-var {name}: there is no such variable in the environment")]
    NoVariable { name: String },
    #[error("{name} is {value:?}, which is no rank")]
    NoRank { name: String, value: String },
    #[error("{name} says {size} ranks, but this is rank {rank}")]
    TooFew { name: String, size: u32, rank: u32 },
}

impl Place {
    /// The rank of this process: from the variable `named`, if one is, else from those that are
    /// known. `None` if this is no parallel job.
    pub fn find(named: Option<&str>, variable: impl Fn(&str) -> Option<OsString>) -> Result<Option<Place>, RankError> {
        let text = |name: &str| variable(name).map(|v| v.to_string_lossy().into_owned());
        let number = |name: &str| match text(name) {
            None => Ok(None),
            Some(value) => match value.trim().parse::<u32>() {
                Ok(number) => Ok(Some(number)),
                Err(_) => Err(RankError::NoRank {
                    name: name.into(),
                    value,
                }),
            },
        };
        let (name, rank) = match named {
            Some(name) => {
                let missing = || RankError::NoVariable { name: name.into() };
                (name, number(name)?.ok_or_else(missing)?)
            }
            None => {
                let mut found = None;
                for (name, _) in VARIABLES {
                    if found.is_none() {
                        found = number(name)?.map(|rank| (name, rank));
                    }
                }
                match found {
                    Some(found) => found,
                    None => return Ok(None),
                }
            }
        };
        let own = VARIABLES.iter().filter(|v| v.0 == name);
        let others = VARIABLES.iter().filter(|v| v.0 != name);
        let sizes = own.chain(others).flat_map(|v| v.1);
        for size_name in sizes {
            if let Some(size) = number(size_name)? {
                if size <= rank {
                    let name = (*size_name).into();
                    return Err(RankError::TooFew { name, size, rank });
                }
                return Ok(Some(Place { rank, size: Some(size) }));
            }
        }
        Ok(Some(Place { rank, size: None }))
    }
}

/// A name with `%r` replaced by the rank, and `%%` by `%`; whether there was a `%r`.
pub fn expand_name(name: &Path, rank: u32) -> (PathBuf, bool) {
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    let mut out = Vec::new();
    let mut found = false;
    let mut bytes = name.as_os_str().as_bytes();
    while let Some((&first, rest)) = bytes.split_first() {
        bytes = rest;
        match (first, rest.first()) {
            (b'%', Some(b'r')) => {
                out.extend_from_slice(rank.to_string().as_bytes());
                found = true;
            }
            (b'%', Some(b'%')) => out.push(b'%'),
            _ => {
                out.push(first);
                continue;
            }
        }
        bytes = &bytes[1..];
    }
    (PathBuf::from(OsString::from_vec(out)), found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(named: Option<&str>, variables: &[(&str, &str)]) -> Result<Option<Place>, RankError> {
        let value = |name: &str| variables.iter().find(|v| v.0 == name).map(|v| v.1.into());
        Place::find(named, value)
    }

    #[test]
    fn ranks_are_found_as_each_launcher_tells_them() {
        let place = |rank, size| Ok(Some(Place { rank, size }));
        assert_eq!(find(None, &[]), Ok(None));
        let open_mpi = [
            ("OMPI_COMM_WORLD_RANK", "3"),
            ("OMPI_COMM_WORLD_SIZE", "4"),
            ("PMIX_RANK", "3"),
        ];
        assert_eq!(find(None, &open_mpi), place(3, Some(4)));
        assert_eq!(find(None, &[("PMI_RANK", "1"), ("PMI_SIZE", "2")]), place(1, Some(2)));
        assert_eq!(
            find(None, &[("SLURM_PROCID", "5"), ("SLURM_NTASKS", "16")]),
            place(5, Some(16))
        );
        assert_eq!(find(None, &[("PMIX_RANK", "5")]), place(5, None));
        assert_eq!(
            find(Some("MINE"), &[("MINE", "2"), ("PMI_SIZE", "7")]),
            place(2, Some(7))
        );
    }

    #[test]
    fn what_is_no_rank_is_named() {
        let error = |found: Result<_, RankError>| found.unwrap_err().to_string();
        assert_eq!(
            error(find(Some("MINE"), &[])),
            "--rank-var MINE: there is no such variable in the environment"
        );
        assert_eq!(
            error(find(None, &[("PMI_RANK", "x")])),
            "PMI_RANK is \"x\", which is no rank"
        );
        let small = [("PMI_RANK", "4"), ("PMI_SIZE", "4")];
        assert_eq!(error(find(None, &small)), "PMI_SIZE says 4 ranks, but this is rank 4");
    }

    #[test]
    fn names_get_the_rank() {
        let expanded = |name: &str| expand_name(Path::new(name), 12);
        assert_eq!(expanded("run.%r.mtr"), ("run.12.mtr".into(), true));
        assert_eq!(expanded("100%%r"), ("100%r".into(), false));
        assert_eq!(expanded("plain%"), ("plain%".into(), false));
    }
}

//! `calibrate`
use clap::Args as ArgGroup;
use std::path::PathBuf;
#[derive(Clone, Debug, ArgGroup)]
pub struct CalibrateArgs {
    /// Write the description here.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}
pub fn command(_args: &CalibrateArgs) -> anyhow::Result<u8> {
    Ok(0)
}

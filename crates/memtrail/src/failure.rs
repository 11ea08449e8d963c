//! Exit statuses.

/// memtrail itself failed.
pub const OURS: u8 = 125;

/// The status for an error: 126 and 127 as `env` does, 125 for everything of our own.
pub fn status(error: &anyhow::Error) -> u8 {
    error
        .chain()
        .find_map(|cause| cause.downcast_ref::<memtrail_tracee::Error>())
        .map_or(OURS, |e| e.exit_status() as u8)
}

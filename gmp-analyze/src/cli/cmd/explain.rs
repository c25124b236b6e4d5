//! `explain`: what the columns and the rules mean.

use crate::cli::{Failure, Verdict, config};
use crate::render::explain;
use std::io::Write;

pub(super) fn run(out: &mut dyn Write) -> Result<Verdict, Failure> {
    explain::everything(out, config::layout(None, None).width)?;
    Ok(Verdict::Fine)
}

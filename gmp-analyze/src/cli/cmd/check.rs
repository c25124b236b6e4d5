//! `check`: every rule that a trace breaks.

use crate::cli::args::TraceArgs;
use crate::cli::{Failure, Verdict};
use crate::diag::Severity;
use crate::render::checked;
use crate::session;
use std::io::Write;

pub(super) fn run(args: &TraceArgs, out: &mut dyn Write) -> Result<Verdict, Failure> {
    let mut verdict = Verdict::Fine;
    for path in &args.traces {
        let report = session::checked(path, true)?;
        checked::anomalies(out, &report)?;
        if report
            .anomalies
            .iter()
            .any(|anomaly| anomaly.severity > Severity::Info)
        {
            verdict = Verdict::Denied;
        }
    }
    Ok(verdict)
}

//! What is said about a trace that is not whole, by commands whose output has no room for it.

use super::picture;
use crate::diag::{Counts, Severity};
use crate::input::Input;

/// Names the kinds of damage that the answers suffer from: what the reader met in `input`, and what the
/// machine's `counts` say of its events.
pub(super) fn note(input: &Input, counts: &Counts) {
    let mut anomalies = input.anomalies();
    anomalies.extend(counts.to_anomalies());
    let harmful = anomalies
        .iter()
        .filter(|anomaly| anomaly.severity > Severity::Info);
    let kinds: Vec<&str> = harmful.map(|anomaly| anomaly.kind.as_str()).collect();
    if !kinds.is_empty() {
        let kinds = kinds.join(", ");
        let what = format!("the trace is not whole ({kinds}): gmp-analyze check tells more");
        picture::note(&input.facts().source, &what);
    }
}

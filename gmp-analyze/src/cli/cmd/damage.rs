//! What is said about a trace that is not whole, by commands whose output has no room for it.

use super::picture;
use crate::diag::{Anomaly, Severity};

/// Names the kinds of damage that the answers suffer from.
pub(super) fn note(source: &str, anomalies: &[Anomaly]) {
    let harmful = anomalies
        .iter()
        .filter(|anomaly| anomaly.severity > Severity::Info);
    let kinds: Vec<&str> = harmful.map(|anomaly| anomaly.kind.as_str()).collect();
    if !kinds.is_empty() {
        let kinds = kinds.join(", ");
        let what = format!("the trace is not whole ({kinds}): gmp-analyze check tells more");
        picture::note(source, &what);
    }
}

//! Small traces in text form, and what both readers make of them.

use gmp_trace::anomaly::AnomalyKind;
use gmp_trace::go::text::from_text;
use gmp_trace::id::GId;
use gmp_trace::{Body, Event};

use super::{drain, lenient, strict};

/// No thread, no P.
pub(crate) const NONE: u64 = u64::MAX;

/// One generation: events of threads, and a clock.
pub(crate) fn generation(number: u64, threads: &[(u64, &str)]) -> String {
    let mut text = String::new();
    for (m, events) in threads {
        text += &format!(
            "EventBatch gen={number} m={m} time={} size=?\n{events}\n",
            number * 1000
        );
    }
    text + &format!(
        "EventBatch gen={number} m={NONE} time={} size=?\nFrequency freq=15625000\n",
        number * 1000
    )
}

/// A trace of Go 1.23 with one generation.
pub(crate) fn one(threads: &[(u64, &str)]) -> Vec<u8> {
    parse(&generation(1, threads))
}

pub(crate) fn parse(generations: &str) -> Vec<u8> {
    from_text(&format!("Trace Go1.23\n{generations}")).expect("a trace")
}

/// Events of a trace that the strict reader accepts, the beginnings of generations left out.
pub(crate) fn accepted(bytes: &[u8]) -> Vec<Event> {
    let mut reader = strict(bytes).expect("a trace");
    let (mut events, error) = drain(&mut reader);
    assert!(error.is_none(), "{error:?}");
    assert_eq!(drain(&mut lenient(bytes).expect("a trace")).0, events);
    events.retain(|event| !matches!(event.body, Body::Sync { .. }));
    events
}

/// What the strict reader says, and the lenient one counts.
pub(crate) fn refused(bytes: &[u8]) -> (String, Vec<AnomalyKind>) {
    let error = match strict(bytes) {
        Ok(mut reader) => drain(&mut reader).1.expect("an error"),
        Err(error) => error,
    };
    let kinds = match lenient(bytes) {
        Ok(mut reader) => {
            drain(&mut reader);
            reader
                .anomalies()
                .iter()
                .map(|anomaly| anomaly.kind)
                .collect()
        }
        Err(_) => Vec::new(),
    };
    (error.to_string(), kinds)
}

/// A P that runs on thread 0, and a goroutine that does.
pub(crate) const P0: &str = "ProcStatus dt=1 p=0 pstatus=1";
pub(crate) const G1: &str = "GoStatus dt=1 g=1 m=0 gstatus=2";

pub(crate) fn g(id: u64) -> GId {
    GId::new(id).expect("a goroutine")
}

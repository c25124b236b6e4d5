//! The comparisons that fuzz targets make. Each panics when two answers differ, and tells whether it
//! could compare at all.

use std::fmt::Write;
use std::io::Cursor;

use gmp_trace::anomaly::{Anomalies, AnomalyKind};
use gmp_trace::check::{Checker, Rule};
use gmp_trace::text::{from_text, to_text};
use gmp_trace::{Event, Options, Reader, open};

/// What a target did with its input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compared {
    /// There were two answers, and they agreed.
    Yes,
    /// The input has no answer to compare: it is refused, or damaged where the answers may differ.
    No,
}

/// A target: takes any bytes.
pub type Target = fn(&[u8]) -> Compared;

/// Every target by its name.
pub const TARGETS: [(&str, Target); 3] = [
    ("native_text", native_text),
    ("order_check", order_check),
    ("go_trace", go_trace),
];

fn read(bytes: &[u8]) -> Option<(Vec<Event>, Anomalies)> {
    let mut reader = open(Cursor::new(bytes.to_vec())).ok()?;
    let mut events = Vec::new();
    let end = reader.for_each_event(|event, tables| {
        // Everything that a consumer may look at.
        if let gmp_trace::Body::GoPark { reason, site, .. } = event.body {
            assert!(tables.text(reason).len() < 1 << 20);
            assert!(
                site.is_none_or(|site| tables.site(site).is_some()),
                "a site of no table"
            );
        }
        events.push(*event);
    });
    assert!(end.is_ok(), "bytes in memory can always be read");
    assert_eq!(reader.info().events, events.len() as u64);
    assert_eq!(
        reader.info().bytes,
        bytes.len() as u64,
        "every byte is accounted for"
    );
    Some((events, reader.anomalies().clone()))
}

/// Reads `data`, turns it into text and back, reads that: the events are the same.
pub fn native_text(data: &[u8]) -> Compared {
    let Some((events, anomalies)) = read(data) else {
        return Compared::No;
    };
    let mut text = Vec::new();
    let told = to_text(Cursor::new(data.to_vec()), &mut text);
    assert!(told.is_ok(), "what can be read has a text");
    let text = String::from_utf8_lossy(&text);
    let again = match from_text(&text) {
        Ok(again) => again,
        Err(error) => panic!("our own text is refused: {error}"),
    };
    let Some((events_again, _)) = read(&again) else {
        panic!("our own text is no trace")
    };
    // The text has no damaged blocks, of which a reader still knows when they began, and leaves out
    // what cannot be decoded.
    let unclear = [
        AnomalyKind::BadChecksum,
        AnomalyKind::BadRecord,
        AnomalyKind::UnknownKind,
    ];
    if unclear.iter().any(|kind| anomalies.count(*kind) > 0) {
        return Compared::No;
    }
    let differs = events.iter().zip(&events_again).find(|(a, b)| a != b);
    assert_eq!(
        (differs, events.len()),
        (None, events_again.len()),
        "{anomalies:?}"
    );
    Compared::Yes
}

/// What a reader of Go's formats gave: events, what was wrong, and the error that ended it.
type Outcome = (Vec<Event>, Anomalies, Option<String>);

fn outcome(reader: Result<Reader, gmp_trace::Error>) -> Outcome {
    let mut reader = match reader {
        Ok(reader) => reader,
        Err(error) => return (Vec::new(), Anomalies::default(), Some(error.to_string())),
    };
    let mut events = Vec::new();
    let end = reader.for_each_event(|event, tables| {
        if let gmp_trace::Body::GoPark { stack, .. } = event.body {
            assert!(stack.is_none_or(|stack| (stack.0 as usize) < tables.stack_count()));
        }
        events.push(*event);
    });
    let error = end.err().map(|error| error.to_string());
    (events, reader.anomalies().clone(), error)
}

/// Reads `data` as a trace of Go, as a stream and as a file: both give the same. What a strict reader
/// takes is what a tolerant one gives.
pub fn go_trace(data: &[u8]) -> Compared {
    if !data.starts_with(b"go 1.") {
        return Compared::No;
    }
    let stream = outcome(open(Cursor::new(data.to_vec())));
    let file = outcome(Options::new().open_at(data.to_vec()));
    assert_eq!(stream.2, file.2, "the same end");
    assert_eq!(stream.0.len(), file.0.len(), "as many events");
    let differs = stream.0.iter().zip(&file.0).find(|(a, b)| a != b);
    assert_eq!(differs, None);
    let strict = outcome(Options::new().strict().open_at(data.to_vec()));
    if strict.2.is_some() {
        return Compared::No;
    }
    assert_eq!(stream.2, None, "only the strict reader takes it");
    let differs = strict.0.iter().zip(&stream.0).find(|(a, b)| a != b);
    assert_eq!((differs, strict.0.len()), (None, stream.0.len()));
    Compared::Yes
}

/// What one M does, by number, with goroutine `g`, P `p` and sequence number `seq`.
fn record(what: u8, g: u8, seq: u8) -> String {
    let (g, with_seq) = (u64::from(g % 5) + 1, seq > 127);
    let seq = if with_seq {
        format!(" seq={}", seq % 8)
    } else {
        String::new()
    };
    match what % 12 {
        0 | 1 => format!("Start:global dt=1 g={g}{seq}"),
        2 | 3 => format!("Ready:timer dt=1 g={g}{seq}"),
        4 | 5 => "Park dt=1 wait_slot=0".to_owned(),
        6 => "Yield dt=1".to_owned(),
        7 => format!("Create dt=1 child_g={g} created_site=0"),
        8 => "Exit:returned dt=1".to_owned(),
        9 => format!("ParkStart:local dt=1 wait_slot=0 g={g}{seq}"),
        10 => format!("YieldStart:runnext dt=1 g={g}{seq}"),
        _ => "Preempted:signal dt=1".to_owned(),
    }
}

/// Lets three Ms do what `data` says and reads that. Where the reader found nothing wrong with the
/// order, the check finds nothing either.
pub fn order_check(data: &[u8]) -> Compared {
    let mut text = String::from("gmp trace 1.0\nclock 1000000000\n");
    let mut meant = 1; // the begin of the generation
    for m in 0..3u8 {
        let _ = writeln!(
            text,
            "block events generation=1 sequence=0 m={m} base={m} p={m}"
        );
        let _ = writeln!(
            text,
            "WaitDef wait_slot=0 reason_text=\"sleep\" object=0 wait_site=0"
        );
        for bytes in data.chunks_exact(3).filter(|bytes| bytes[0] % 3 == m) {
            let line = record(bytes[0] / 3, bytes[1], bytes[2]);
            meant += if line.contains("Start:") && !line.starts_with("Start:") {
                2
            } else {
                1
            };
            let _ = writeln!(text, "{line}");
        }
    }
    let bytes = match from_text(&text) {
        Ok(bytes) => bytes,
        Err(error) => panic!("{error}"),
    };
    let Some((events, anomalies)) = read(&bytes) else {
        panic!("our own text is no trace")
    };
    assert_eq!(
        events.len(),
        meant,
        "every record makes its events, whatever their order"
    );
    let mut checker = Checker::new();
    events.iter().for_each(|event| checker.event(event));
    let report = checker.finish(events.len() as u64);
    let wrong = [AnomalyKind::OrderForced, AnomalyKind::StateMismatch];
    if wrong.iter().any(|kind| anomalies.count(*kind) > 0) {
        return Compared::No;
    }
    const SHARED: [Rule; 5] = [
        Rule::MRunsOne,
        Rule::StartNeedsRunnable,
        Rule::ReadyNeedsWaiting,
        Rule::StopNeedsRunning,
        Rule::CreatedOnce,
    ];
    for rule in SHARED {
        assert!(
            !report.counts.contains_key(&rule),
            "only the check complains: {:?}",
            report.broken
        );
    }
    Compared::Yes
}

//! The text form: both ways the same records, and clear words about what is no trace.

#![cfg(all(feature = "text", feature = "testgen"))]
#![allow(clippy::unwrap_used)] // an error where none may be is a failed test

mod support;

use std::io::Cursor;

use gmp_trace::testgen::{Config, killed_program, program};
use gmp_trace::text::{from_text, to_text};
use support::read;

fn text_of(bytes: &[u8]) -> String {
    let mut text = Vec::new();
    let anomalies = to_text(Cursor::new(bytes.to_vec()), &mut text).unwrap();
    assert_eq!(
        anomalies.count(gmp_trace::anomaly::AnomalyKind::BadRecord),
        0
    );
    String::from_utf8(text).unwrap()
}

#[test]
fn text_and_back_gives_the_same_records() {
    let (mut lines, mut events) = (0, 0);
    for seed in 0..30 {
        let config = Config {
            events: 800,
            ms: 1 + seed as usize % 4,
            ..Config::default()
        };
        let program = match seed % 3 {
            0 => killed_program(seed, &config),
            _ => program(seed, &config),
        };
        let text = text_of(&program.bytes);
        let again = from_text(&text).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        assert_eq!(text_of(&again), text, "seed {seed}");
        let (before, after) = (read(&program.bytes).unwrap(), read(&again).unwrap());
        assert!(before.events == after.events, "seed {seed}");
        assert_eq!(before.kinds(), after.kinds(), "seed {seed}");
        lines += text.lines().count();
        events += after.events.len();
    }
    assert!(lines > 10_000 && events > 20_000, "{lines} {events}");
}

const HEAD: &str = "gmp trace 1.0\nclock 1000000000\n";

#[test]
fn a_trace_can_be_written_by_hand() {
    let text = format!(
        "{HEAD}# two goroutines\n\nblock control generation=1 sequence=0 base=10\n\
         GenBegin generation_count=1\nClockPair trace_ticks=10 mono_nanos=5 wall_nanos=6\n\
         block events generation=1 sequence=0 m=0 base=10 g=1 p=0\n\
         GoStatus:running dt=0 g=1 on_optional_m=1 reason_text=0 object=0 wait_site=0 \
         created_site=0 creator_goroutine=0 label_text=#0\n\
         Create dt=5 child_g=2 created_site=0\n\
         WaitDef wait_slot=3 reason_text=\"chan receive\" object=64 wait_site=0\n\
         ParkStart:local dt=1 wait_slot=3 g=2\n\
         Log dt=1 task=0 key_text=#0 \"said \\\"so\\\" \\x41\"\n\
         block table generation=1 sequence=0 base=0\n\
         String string_id=0 \"a label\"\n\
         block control generation=1 sequence=1 base=0\n\
         GenEnd generation_count=1 blocks_count=2 events_count=5 lost_count=0\n\
         TraceEnd generations_count=1 events_count=5 lost_count=0\n"
    );
    let read = read(&from_text(&text).unwrap()).unwrap();
    assert_eq!(read.kinds(), []);
    let bodies: Vec<String> = read
        .events
        .iter()
        .map(|e| format!("{:?}", e.body))
        .collect();
    assert_eq!(bodies.len(), 6);
    assert!(
        bodies[3].starts_with("GoPark { reason: Text(2)"),
        "{}",
        bodies[3]
    );
    assert_eq!(bodies[4], "GoStart { found: Some(Local) }");
    let gmp_trace::Body::Log { value, key, .. } = read.events[5].body else {
        panic!("no log")
    };
    assert_eq!(read.tables.text(value), "said \"so\" A");
    assert_eq!(read.tables.text(key), "a label");
}

#[test]
fn what_is_no_trace_is_refused_with_its_line() {
    let block = "block events generation=1 sequence=0 m=0 base=10\n";
    let cases = [
        ("".to_owned(), "clock"),
        ("gmp".to_owned(), "gmp trace 1.0"),
        (format!("{HEAD}Yield dt=1\n"), "a block before"),
        (
            format!("{HEAD}block sounds generation=1\n"),
            "a kind of block",
        ),
        (format!("{HEAD}block events colour=1\n"), "an attribute"),
        (format!("{HEAD}{block}Yeld dt=1\n"), "the name of a record"),
        (format!("{HEAD}{block}Yield\n"), "`dt=…`"),
        (format!("{HEAD}{block}Yield g=1\n"), "`dt=…`"),
        (format!("{HEAD}{block}Yield dt=x\n"), "a number"),
        (
            format!("{HEAD}{block}Yield dt=1 +2\n"),
            "1 numbers, found 2",
        ),
        (format!("{HEAD}{block}Exit:sideways dt=1\n"), "a number"),
        (format!("{HEAD}{block}Exit:9 dt=1\n"), "no value 9"),
        (
            format!("{HEAD}{block}Unknown:0xf0 1\n"),
            "no length of 0xf0",
        ),
        (
            format!("{HEAD}{block}Label dt=1 label_text=\"mine\"\n"),
            "define it",
        ),
        (
            format!("{HEAD}{block}Log dt=1 task=0 key_text=#0 \"no end\n"),
            "closing quote",
        ),
        (
            format!("{HEAD}{block}Log dt=1 task=0 key_text=#0\n"),
            "a text between quotes",
        ),
    ];
    for (text, word) in &cases {
        let error = from_text(text).unwrap_err();
        assert!(error.to_string().contains(word), "{text}: {error}");
        assert_eq!(error.line(), text.lines().count(), "{text}: {error}");
    }
}

//! Small traces in the format up to Go 1.21, made byte by byte.

mod go_support;

use gmp_trace::anomaly::AnomalyKind;
use gmp_trace::event::GState;
use gmp_trace::id::GId;
use gmp_trace::varint;
use gmp_trace::{Body, Event};

use go_support::{drain, lenient, strict};

const BATCH: u8 = 1;
const FREQUENCY: u8 = 2;
const STACK: u8 = 3;
const GOMAXPROCS: u8 = 4;
const PROC_START: u8 = 5;
const STW_START: u8 = 9;
const STW_DONE: u8 = 10;
const GO_CREATE: u8 = 13;
const GO_START: u8 = 14;
const GO_BLOCK: u8 = 20;
const GO_UNBLOCK: u8 = 21;
const GO_SYS_CALL: u8 = 28;
const GO_SYS_EXIT: u8 = 29;
const GO_SYS_BLOCK: u8 = 30;
const FUTILE_WAKEUP: u8 = 36;
const STRING: u8 = 37;
const USER_REGION: u8 = 47;
const CPU_SAMPLE: u8 = 49;

/// A trace that is being written.
struct Trace(Vec<u8>);

impl Trace {
    /// With a first batch of P 0 at 1000.
    fn new(version: u16) -> Trace {
        let mut bytes = format!("go 1.{version} trace").into_bytes();
        bytes.resize(16, 0);
        let mut trace = Trace(bytes);
        trace.event(BATCH, &[0, 1000]);
        trace
    }

    /// An event with its numbers, the time among them.
    fn event(&mut self, kind: u8, numbers: &[u64]) -> &mut Trace {
        let mut encoded = Vec::new();
        numbers
            .iter()
            .for_each(|&number| varint::push(&mut encoded, number));
        if numbers.len() < 4 {
            self.0.push(kind | ((numbers.len() as u8 - 1) << 6));
        } else {
            self.0.push(kind | 3 << 6);
            varint::push(&mut self.0, encoded.len() as u64);
        }
        self.0.extend_from_slice(&encoded);
        self
    }

    fn string(&mut self, id: u64, text: &str) -> &mut Trace {
        self.0.push(STRING);
        varint::push(&mut self.0, id);
        varint::push(&mut self.0, text.len() as u64);
        self.0.extend_from_slice(text.as_bytes());
        self
    }

    /// Goroutine 1 runs on P 0, thread 3, and the trace has started.
    fn started(&mut self) -> &mut Trace {
        self.event(PROC_START, &[1, 3])
            .event(GO_CREATE, &[1, 1, 0, 0])
            .event(GO_START, &[1, 1, 1])
            .event(GOMAXPROCS, &[1, 4, 0])
    }

    /// With its clock, of a unit of a nanosecond.
    fn done(&mut self) -> Vec<u8> {
        self.event(FREQUENCY, &[1_000_000_000]);
        self.0.clone()
    }
}

fn accepted(bytes: &[u8]) -> Vec<Event> {
    let mut reader = strict(bytes).expect("a trace");
    let (events, error) = drain(&mut reader);
    assert!(error.is_none(), "{error:?}");
    assert_eq!(drain(&mut lenient(bytes).expect("a trace")).0, events);
    events
}

fn refused(bytes: &[u8]) -> (String, Vec<Event>, Vec<AnomalyKind>) {
    let error = drain(&mut strict(bytes).expect("a trace"))
        .1
        .expect("refused");
    let mut reader = lenient(bytes).expect("a trace");
    let (events, _) = drain(&mut reader);
    let kinds = reader
        .anomalies()
        .iter()
        .map(|anomaly| anomaly.kind)
        .collect();
    (error.to_string(), events, kinds)
}

#[test]
fn what_was_there_becomes_statuses() {
    let mut trace = Trace::new(21);
    trace.event(GO_CREATE, &[1, 7, 0, 0]);
    let events = accepted(&trace.started().done());
    let statuses: Vec<_> = events
        .iter()
        .filter_map(|event| match event.body {
            Body::GoStatus {
                goroutine, state, ..
            } => Some((goroutine.get(), state)),
            _ => None,
        })
        .collect();
    assert_eq!(statuses, [(1, GState::Running), (7, GState::Runnable)]);
    assert!(matches!(
        events[0].body,
        Body::Sync {
            generation: 1,
            mono: None,
            wall: None
        }
    ));
    assert_eq!(
        (events[0].time.0, events[1].time.0),
        (0, 1),
        "Go's is 1 ns before the first event"
    );
}

#[test]
fn a_system_call_is_as_long_as_is_known() {
    let mut trace = Trace::new(21);
    trace
        .started()
        .event(GO_SYS_CALL, &[10, 0])
        .event(GO_SYS_CALL, &[10, 0]);
    // The second one blocks; its end is recorded 50 later with the time at which it was.
    trace
        .event(GO_SYS_BLOCK, &[5])
        .event(GO_SYS_EXIT, &[50, 1, 2, 1000 + 3 + 1 + 40]);
    let events = accepted(&trace.done());
    let calls: Vec<_> = events
        .iter()
        .filter_map(|event| match event.body {
            Body::SyscallEnter { .. } => Some(("enter", event.time.0)),
            Body::SyscallExit => Some(("exit", event.time.0)),
            Body::SyscallExitBlocked => Some(("blocked", event.time.0)),
            _ => None,
        })
        .collect();
    assert_eq!(
        calls,
        [("enter", 13), ("exit", 14), ("enter", 23), ("blocked", 43)]
    );
    let end = events.last().expect("an event");
    assert_eq!((end.m, end.p, end.g), (None, None, GId::new(1)));
}

#[test]
fn a_sample_inside_a_system_call_does_not_hide_that_it_blocks() {
    let mut trace = Trace::new(21);
    trace
        .started()
        .event(GO_SYS_CALL, &[10, 0])
        .event(CPU_SAMPLE, &[0, 1016, 0, 1, 0])
        .event(GO_SYS_BLOCK, &[5])
        .event(GO_SYS_EXIT, &[50, 1, 2, 1000 + 3 + 1 + 40]);
    let events = accepted(&trace.done());
    let has = |wanted: fn(&Body) -> bool| events.iter().any(|event| wanted(&event.body));
    assert!(has(|body| matches!(body, Body::CpuSample { .. })));
    assert!(has(|body| matches!(body, Body::SyscallExitBlocked)));
    assert!(!has(|body| matches!(body, Body::SyscallExit)));
}

#[test]
fn a_futile_wakeup_is_left_out() {
    // Go's own reader refuses traces with this event.
    let mut trace = Trace::new(19);
    trace
        .started()
        .event(FUTILE_WAKEUP, &[1])
        .event(GO_BLOCK, &[1, 0]);
    let events = accepted(&trace.done());
    assert!(matches!(
        events.last().expect("an event").body,
        Body::GoPark { .. }
    ));
}

#[test]
fn reasons_to_stop_the_world_by_version() {
    let mut checked = 0;
    for (version, number, words) in [
        (11, 0, "GC mark termination"),
        (19, 1, "GC sweep termination"),
        (19, 2, ""),
        (21, 0, ""),
        (21, 1, "GC mark termination"),
        (21, 10, "start trace"),
        (21, 99, ""),
    ] {
        let mut trace = Trace::new(version);
        trace
            .started()
            .event(STW_START, &[1, number])
            .event(STW_DONE, &[1]);
        let bytes = trace.done();
        let mut reader = strict(&bytes).expect("a trace");
        let (events, error) = drain(&mut reader);
        assert!(error.is_none(), "{error:?}");
        let kind = events.iter().find_map(|event| match event.body {
            Body::StopRequested { kind, .. } => Some(kind),
            _ => None,
        });
        assert_eq!(
            reader.tables().text(kind.expect("a stop")),
            words,
            "{version} {number}"
        );
        checked += 1;
    }
    assert_eq!(checked, 7);
}

#[test]
fn a_system_call_that_began_before_the_trace_is_inferred() {
    let mut trace = Trace::new(21);
    trace
        .started()
        .event(GO_SYS_EXIT, &[10, 17, 4, 0])
        .event(GO_UNBLOCK, &[1, 18, 2, 0]);
    let (error, events, kinds) = refused(&trace.done());
    assert!(error.contains("all wait for an event"), "{error}");
    assert_eq!(kinds[0], AnomalyKind::OrderForced);
    let said: Vec<_> = events
        .iter()
        .filter_map(|event| match event.body {
            Body::GoStatus {
                goroutine, state, ..
            } => Some((goroutine.get(), state)),
            _ => None,
        })
        .collect();
    assert_eq!(said[1..], [(17, GState::Syscall), (18, GState::Waiting)]);
    assert!(
        events
            .iter()
            .any(|event| matches!(event.body, Body::SyscallExitBlocked))
    );
}

#[test]
fn strings_are_defined_once_and_not_empty() {
    let mut checked = 0;
    for (strings, words) in [
        (&[(0, "a")][..], "string 0"),
        (&[(1, "")], "string 1"),
        (&[(1, "a"), (1, "b")], "string 1 twice"),
    ] {
        let mut trace = Trace::new(21);
        trace.started();
        for (id, text) in strings {
            trace.string(*id, text);
        }
        let (error, events, kinds) = refused(&trace.done());
        assert!(error.contains(words), "{words}: {error}");
        assert_eq!((events.len(), kinds.len()), (3, 1), "{words}");
        // The last string is the bad one.
        let at = trace.0.len() as u64 - 4 - 3 - strings[strings.len() - 1].1.len() as u64 - 2;
        assert!(error.contains(&format!("byte {at}")), "{at}: {error}");
        checked += 1;
    }
    assert_eq!(checked, 3);
}

#[test]
fn a_bad_record_with_a_known_end_is_stepped_over() {
    let mut checked = 0;
    type Damage = fn(&mut Trace);
    let cases: [(Damage, u64); 5] = [
        (|trace| _ = trace.event(63, &[1, 2, 3]), 1),
        (|trace| _ = trace.event(GO_BLOCK, &[1, 2, 3]), 1),
        (|trace| _ = trace.event(GO_CREATE, &[1; 3000]), 1),
        (|trace| _ = trace.event(STACK, &[9, 1, 2, 3]), 1),
        (nobodys, 2),
    ];
    // An event behind a batch that is of no P.
    fn nobodys(trace: &mut Trace) {
        trace
            .event(BATCH, &[1 << 40, 5])
            .event(GO_BLOCK, &[1, 0])
            .event(BATCH, &[0, 1004]);
    }
    for (damage, times) in cases {
        let mut trace = Trace::new(21);
        let at = trace.started().0.len() as u64;
        damage(&mut trace);
        let bytes = trace.event(GO_CREATE, &[7, 2, 0, 0]).done();
        let error = drain(&mut strict(&bytes).expect("a trace")).1;
        assert_eq!(error.expect("refused").offset(), at);
        let mut reader = lenient(&bytes).expect("a trace");
        let (events, error) = drain(&mut reader);
        assert!(error.is_none(), "{error:?}");
        let last = events.last().expect("an event");
        assert!(matches!(last.body, Body::GoCreate { .. }), "{last:?}");
        assert_eq!(last.time.0, 10);
        let anomalies: Vec<_> = reader.anomalies().iter().collect();
        assert_eq!(anomalies.iter().map(|a| a.count).sum::<u64>(), times);
        assert_eq!(anomalies[0].first_offset, at, "{:?}", anomalies[0]);
        checked += 1;
    }
    assert_eq!(checked, 5);
}

#[test]
fn misused_regions_are_kept() {
    let mut trace = Trace::new(21);
    trace.started().string(1, "a").string(2, "b");
    for (mode, name) in [(0, 1), (0, 2), (1, 1), (1, 2)] {
        trace.event(USER_REGION, &[1, 0, mode, name, 0]);
    }
    let (error, events, kinds) = refused(&trace.done());
    assert!(error.contains("misuse of region"), "{error}");
    assert_eq!(kinds, [AnomalyKind::SpanMisuse]);
    let ends = events
        .iter()
        .filter(|event| matches!(event.body, Body::RegionEnd { .. }));
    assert_eq!(ends.count(), 2);
}

#[test]
fn times_that_contradict_the_order_are_moved() {
    // P 1 starts goroutine 2 before P 0 makes it, by its clock.
    let mut trace = Trace::new(21);
    trace.started().event(GO_CREATE, &[100, 2, 0, 0]);
    trace
        .event(BATCH, &[1, 1010])
        .event(PROC_START, &[1, 4])
        .event(GO_START, &[1, 2, 1]);
    let (error, events, kinds) = refused(&trace.done());
    assert!(
        error.contains("time stamps in the order of cause"),
        "{error}"
    );
    assert_eq!(kinds, [AnomalyKind::ClockSkew]);
    let start = events.last().expect("an event");
    assert_eq!((start.time.0, start.g), (103, GId::new(2)));
}

#[test]
fn records_that_run_past_the_end_are_cut() {
    let mut checked = 0;
    for tail in [
        &[0xc0 | GO_CREATE, 40, 1][..],
        &[GO_START | 0x80, 0xff],
        &[STRING, 1, 9, b'a'],
    ] {
        let mut trace = Trace::new(21);
        let mut bytes = trace.started().done();
        bytes.extend_from_slice(tail);
        assert!(strict(&bytes).is_ok_and(|mut reader| drain(&mut reader).1.is_some()));
        let mut reader = lenient(&bytes).expect("a trace");
        let (events, error) = drain(&mut reader);
        assert!(error.is_none() && events.len() == 3, "{error:?}");
        assert_eq!(reader.anomalies().count(AnomalyKind::Truncated), 1);
        // What tells the clock comes last: without it there are no times.
        let cut = &bytes[..bytes.len() - tail.len() - 3];
        let error = drain(&mut lenient(cut).expect("a trace"))
            .1
            .expect("no clock");
        assert!(error.is_truncated(), "{error}");
        checked += 1;
    }
    assert_eq!(checked, 3);
}

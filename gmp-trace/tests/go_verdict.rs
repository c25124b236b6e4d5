//! Small Go traces in text form: what the strict reader says of each, and what the lenient one makes
//! of it.

mod go_support;

use gmp_trace::Body;
use gmp_trace::anomaly::AnomalyKind;
use gmp_trace::event::{GState, PState};
use gmp_trace::go::text::from_text;

use go_support::made::{G1, NONE, P0, accepted, g, generation, one, parse, refused};
use go_support::{drain, lenient, strict};

#[test]
fn broken_traces_are_refused_in_the_words_of_their_fault() {
    let in_user = format!("{P0}\n{G1}");
    let with = |events: &str| format!("{in_user}\n{events}");
    let mut checked = 0;
    for (events, words, kind) in [
        (
            "GoBlock dt=1 reason_string=9 stack=0",
            "string of the generation, found 9",
            AnomalyKind::MissingTable,
        ),
        (
            "GoBlock dt=1 reason_string=0 stack=9",
            "stack of the generation, found 9",
            AnomalyKind::MissingTable,
        ),
        (
            "GoCreate dt=1 new_g=1 new_stack=0 stack=0",
            "1, which exists",
            AnomalyKind::StateMismatch,
        ),
        (
            "GoStatus dt=1 g=1 m=0 gstatus=4",
            "inconsistent status",
            AnomalyKind::StateMismatch,
        ),
        (
            "ProcStatus dt=1 p=0 pstatus=2",
            "inconsistent status",
            AnomalyKind::StateMismatch,
        ),
        (
            "ProcStatus dt=1 p=1 pstatus=69",
            "69 for P 1",
            AnomalyKind::StateMismatch,
        ),
        (
            "GoCreate dt=1 new_g=0 new_stack=0 stack=0",
            "goroutine 0",
            AnomalyKind::BadRecord,
        ),
        (
            "GoStatus dt=1 g=2 m=0 gstatus=0",
            "0 for goroutine 2",
            AnomalyKind::StateMismatch,
        ),
        (
            "GoStatus dt=1 g=2 m=18446744073709551615 gstatus=3",
            "goroutine 2 without one",
            AnomalyKind::StateMismatch,
        ),
        (
            "GoStart dt=1 g=7 g_seq=1",
            "all wait for an event",
            AnomalyKind::OrderForced,
        ),
        (
            "ProcStart dt=1 p=3 p_seq=1",
            "all wait for an event",
            AnomalyKind::OrderForced,
        ),
        (
            "GoSyscallEnd dt=1",
            "goroutine in a system call",
            AnomalyKind::StateMismatch,
        ),
        (
            "GoSyscallBegin dt=1 p_seq=5 stack=0",
            "5 instead of 1",
            AnomalyKind::StateMismatch,
        ),
        (
            "GCMarkAssistEnd dt=1",
            "not in-flight",
            AnomalyKind::SpanMisuse,
        ),
        (
            "GCMarkAssistBegin dt=1 stack=0\nGCMarkAssistBegin dt=1 stack=0",
            "another beginning",
            AnomalyKind::SpanMisuse,
        ),
        (
            "GCSweepEnd dt=1 swept_value=1 reclaimed_value=1",
            "not in-flight",
            AnomalyKind::SpanMisuse,
        ),
        ("STWEnd dt=1", "not in-flight", AnomalyKind::SpanMisuse),
        (
            "UserTaskBegin dt=1 task=1 parent_task=0 name_string=0 stack=0\nUserTaskBegin dt=1 task=1 parent_task=0 name_string=0 stack=0",
            "task 1 again",
            AnomalyKind::SpanMisuse,
        ),
        (
            "GCBegin dt=1 gc_seq=1 stack=0\nGCBegin dt=1 gc_seq=2 stack=0",
            "no collection in progress",
            AnomalyKind::StateMismatch,
        ),
        (
            "GoDestroy dt=1\nGoStop dt=1 reason_string=0 stack=0",
            "with a goroutine",
            AnomalyKind::StateMismatch,
        ),
        (
            "ProcStop dt=1\nGoBlock dt=1 reason_string=0 stack=0",
            "thread with a P",
            AnomalyKind::StateMismatch,
        ),
        (
            "GoCreateSyscall dt=1 new_g=5",
            "without a goroutine",
            AnomalyKind::StateMismatch,
        ),
    ] {
        let (error, kinds) = refused(&one(&[(0, &with(events))]));
        assert!(error.contains(words), "{events}: {error}");
        assert!(kinds.contains(&kind), "{events}: {kinds:?}");
        checked += 1;
    }
    assert_eq!(checked, 22);
}

#[test]
fn broken_frames_are_refused() {
    let generations = |text: &str| parse(text);
    let mut too_large = from_text("Trace Go1.23").expect("a trace");
    too_large.extend([1, 1, 1, 1, 0xff, 0xff, 0xff, 0xff, 0x7f]);
    let mut no_number = one(&[(0, P0)]);
    // The time of the first event never ends.
    let at = no_number
        .iter()
        .position(|&byte| byte == 13)
        .expect("a status");
    no_number.splice(at + 1..at + 2, [0xff; 11]);
    no_number[21] += 10;
    let strings = |text: &str| {
        let head = format!("EventBatch gen=1 m={NONE} time=1 size=?\n{text}\n");
        parse(&(head + &generation(1, &[(0, P0)])))
    };
    let long = format!("Strings\nString id=1\n\tdata=\"{}\"", "x".repeat(1025));
    let first_later = generation(2, &[(0, P0)]) + &generation(1, &[(0, P0)]);
    let table = |data: &[u8]| {
        let mut bytes = from_text("Trace Go1.23").expect("a trace");
        bytes.extend([1, 1, 0, 1, data.len() as u8]);
        bytes.extend_from_slice(data);
        bytes.extend_from_slice(&parse(&generation(1, &[(0, P0)]))[16..]);
        bytes
    };
    let no_snapshot = from_text(&format!(
        "Trace Go1.26\nEventBatch gen=1 m={NONE} time=1 size=?\nSync\nFrequency freq=1\nEndOfGeneration"
    ));
    let mut checked = 0;
    for (bytes, words) in [
        (too_large, "at most 65536 bytes"),
        (no_number, "a number in base 128"),
        (
            generations(&generation(0, &[(0, P0)])),
            "a generation number from 1",
        ),
        (generations(&first_later), "generations in order"),
        (
            generations(&format!("EventBatch gen=1 m=0 time=1 size=?\n{P0}\n")),
            "a frequency event in each generation",
        ),
        (strings("Frequency freq=1"), "one frequency event"),
        (strings("Frequency freq=0"), "above 0"),
        (strings(&long), "at most 1024 bytes"),
        (
            strings("Strings\nString id=1\n\tdata=\"a\"\nString id=1\n\tdata=\"b\""),
            "string 1 twice",
        ),
        (strings("Strings\nStack id=1 nframes=0"), "strings only"),
        (
            strings("Stacks\nStack id=1 nframes=1\n\tpc=1 func=5 file=0 line=1"),
            "string of the generation, found 5",
        ),
        (table(&[4, 5, 1, 100, b'a']), "a whole string"),
        (
            table(&[2, 3, 1, 0x80, 0x80, 0x80, 0x80, 0x80, 0x20]),
            "at most 128 frames, found 1099511627776",
        ),
        (
            no_snapshot.expect("a trace"),
            "a clock snapshot in each generation",
        ),
        (
            strings("CPUSamples\nString id=1\n\tdata=\"\""),
            "CPU samples only",
        ),
    ] {
        let (error, _) = refused(&bytes);
        assert!(error.contains(words), "{words}: {error}");
        checked += 1;
    }
    assert_eq!(checked, 15);
}

#[test]
fn a_table_that_is_cut_is_told() {
    let mut bytes = from_text("Trace Go1.23").expect("a trace");
    // Samples of which the first ends within its time.
    bytes.extend([1, 1, 0, 1, 3, 6, 7, 0x80]);
    bytes.extend_from_slice(&parse(&generation(1, &[(0, P0)]))[16..]);
    let (error, kinds) = refused(&bytes);
    assert!(error.contains("the time of a sample"), "{error}");
    assert_eq!(kinds, [AnomalyKind::BadRecord]);
}

#[test]
fn a_generation_without_events_that_is_cut_is_no_loss() {
    let table =
        format!("EventBatch gen=1 m={NONE} time=1 size=?\nStrings\nString id=1\n\tdata=\"a\"\n");
    let bytes = from_text(&format!("Trace Go1.26\n{table}")).expect("a trace");
    assert_eq!(accepted(&bytes), []);
    let mut reader = lenient(&bytes).expect("a trace");
    let (events, error) = drain(&mut reader);
    assert!(events.is_empty() && error.is_none(), "{error:?}");
    assert_eq!(reader.anomalies().count(AnomalyKind::Truncated), 1);
    assert_eq!(reader.info().finished, Some(false));
    let events = format!("{table}EventBatch gen=1 m=0 time=1 size=?\n{P0}\n");
    let bytes = from_text(&format!("Trace Go1.26\n{events}")).expect("a trace");
    assert!(refused(&bytes).0.contains("the end of the generation"));
}

#[test]
fn odd_frames_are_accepted() {
    // A size that is written longer than it need be.
    let mut padded = from_text("Trace Go1.23").expect("a trace");
    padded.extend([1, 1, 0, 1, 0x85, 0x80, 0x00, 13, 1, 0, 1, 11]);
    padded[20] = 0x84;
    padded.pop();
    let rest = generation(1, &[]);
    padded.extend_from_slice(&parse(&rest)[16..]);
    assert_eq!(accepted(&padded).len(), 1);
    // An id far away from all others takes no memory.
    let far = format!(
        "EventBatch gen=1 m={NONE} time=1 size=?\nStacks\nStack id=2107068110338293759 nframes=0\n{}",
        generation(1, &[(0, P0)])
    );
    assert_eq!(accepted(&parse(&far)).len(), 1);
    // The last generation that there can be.
    let last = generation(u64::MAX / 1000, &[(0, P0)]).replace(
        &format!("gen={}", u64::MAX / 1000),
        &format!("gen={}", u64::MAX),
    );
    assert_eq!(accepted(&parse(&last)).len(), 1);
    // Events of Go 1.23 in a trace of 1.22, which Go's reader does not mind.
    let mut too_new = one(&[(
        0,
        &format!(
            "{P0}\n{G1}\nGoCreateBlocked dt=1 new_g=2 new_stack=0 stack=0\nGoSwitch dt=1 g=2 g_seq=1"
        ),
    )]);
    too_new[6] = b'2';
    assert_eq!(accepted(&too_new).len(), 6);
    // Nothing but a clock.
    assert!(accepted(&parse(&generation(48, &[]))).is_empty());
}

#[test]
fn the_fault_of_the_first_broken_generation_is_told() {
    let broken = |number| generation(number, &[(0, "GoStop dt=1 reason_string=0 stack=0")]);
    let text = broken(1) + &generation(2, &[(0, "ProcStatus dt=1 p=0 pstatus=99")]);
    let (error, _) = refused(&parse(&text));
    assert!(error.contains("thread with a P"), "{error}");
}

#[test]
fn a_goroutine_without_a_creator() {
    let events = accepted(&one(&[(
        0,
        &format!("{P0}\nGoCreate dt=1 new_g=9 new_stack=0 stack=0"),
    )]));
    assert_eq!(events[1].g, None);
    assert!(
        matches!(events[1].body, Body::GoCreate { child, runnable: true, .. } if child == g(9))
    );
}

#[test]
fn regions_that_overlap_are_kept() {
    let begin = |name| format!("UserRegionBegin dt=1 task=0 name_string={name} stack=0\n");
    let end = |name| format!("UserRegionEnd dt=1 task=0 name_string={name} stack=0\n");
    let events = format!(
        "{P0}\n{G1}\n{}{}{}{}{}",
        begin(1),
        begin(2),
        end(1),
        end(2),
        end(2)
    );
    let text = format!(
        "EventBatch gen=1 m={NONE} time=1 size=?\nStrings\nString id=1\n\tdata=\"a\"\nString id=2\n\tdata=\"b\"\n{}",
        generation(1, &[(0, &events)])
    );
    let bytes = parse(&text);
    let (error, kinds) = refused(&bytes);
    assert!(error.contains("misuse of region"), "{error}");
    assert_eq!(kinds, [AnomalyKind::SpanMisuse]);
    let mut reader = lenient(&bytes).expect("a trace");
    let (events, _) = drain(&mut reader);
    let ends = events
        .iter()
        .filter(|event| matches!(event.body, Body::RegionEnd { .. }))
        .count();
    assert_eq!(ends, 3);
    // The second end of `b` is that of a region from before the trace.
    assert_eq!(reader.anomalies().count(AnomalyKind::SpanMisuse), 1);
}

#[test]
fn a_task_keeps_its_name_in_another_generation() {
    let with_string = |number, name: &str, events: &str| {
        format!(
            "EventBatch gen={number} m={NONE} time=1 size=?\nStrings\nString id=1\n\tdata=\"{name}\"\n{}",
            generation(number, &[(0, &format!("{P0}\n{G1}\n{events}"))])
        )
    };
    let text = with_string(
        1,
        "task",
        "UserTaskBegin dt=1 task=3 parent_task=0 name_string=1 stack=0",
    ) + &with_string(
        2,
        "other",
        "UserTaskEnd dt=1 task=3 stack=0\nUserTaskEnd dt=1 task=4 stack=0",
    );
    let bytes = parse(&text);
    let mut reader = strict(&bytes).expect("a trace");
    let (events, error) = drain(&mut reader);
    assert!(error.is_none(), "{error:?}");
    let names: Vec<&str> = events
        .iter()
        .filter_map(|event| match event.body {
            Body::TaskBegin { name, .. } => Some(reader.tables().text(name)),
            _ => None,
        })
        .collect();
    assert_eq!(names, ["task"]);
}

#[test]
fn a_new_status_counts_where_two_disagree() {
    let first = generation(1, &[(0, &format!("{P0}\n{G1}"))]);
    let second = generation(
        2,
        &[(
            0,
            "ProcStatus dt=1 p=0 pstatus=2\nGoStatus dt=1 g=1 m=0 gstatus=4",
        )],
    );
    let bytes = parse(&(first + &second));
    let (error, kinds) = refused(&bytes);
    assert!(error.contains("P 0 was Running and is Idle"), "{error}");
    assert_eq!(kinds, [AnomalyKind::StateMismatch]);
    let (events, _) = drain(&mut lenient(&bytes).expect("a trace"));
    assert!(matches!(
        events[5].body,
        Body::GoStatus {
            state: GState::Waiting,
            ..
        }
    ));
    assert!(matches!(
        events[4].body,
        Body::ProcStatus {
            state: PState::Idle,
            ..
        }
    ));
}

/// Two threads say that they run goroutine 1, and both end it: what comes after is of two goroutines.
#[test]
fn a_goroutine_that_ends_twice_leaves_one_place() {
    let bytes = one(&[
        (
            0,
            &format!("{P0}\n{G1}\nGoDestroy dt=10\nGoStart dt=10 g=5 g_seq=9"),
        ),
        (
            1,
            "ProcStatus dt=2 p=1 pstatus=1\nGoStatus dt=1 g=1 m=1 gstatus=2\nGoDestroy dt=10\n\
             GoStart dt=10 g=6 g_seq=9",
        ),
    ]);
    let (error, kinds) = refused(&bytes);
    assert!(error.contains("goroutine 1"), "{error}");
    assert!(kinds.contains(&AnomalyKind::OrderForced), "{kinds:?}");
    let (events, _) = drain(&mut lenient(&bytes).expect("a trace"));
    let started = events.iter().filter_map(|event| match event.body {
        Body::GoStart { .. } => event.g,
        _ => None,
    });
    assert_eq!(started.collect::<Vec<_>>(), [g(5), g(6)]);
    let ends = |event: &&gmp_trace::Event| matches!(event.body, Body::GoExit { .. });
    assert_eq!(events.iter().filter(ends).count(), 2);
}

/// Two generations that are `ticks` units of 64 ns apart, and `mono` nanoseconds by the monotonic clock.
fn two_clocks(ticks: u64, mono: u64) -> Vec<u8> {
    let one = |number: u64, time: u64, mono: u64| {
        format!(
            "EventBatch gen={number} m=0 time={time} size=?\n{P0}\n\
             EventBatch gen={number} m={NONE} time={time} size=?\nSync\nFrequency freq=15625000\n\
             ClockSnapshot dt=0 mono={mono} sec=2 nsec=3\nEndOfGeneration\n"
        )
    };
    let generations = one(1, 1000, 5000) + &one(2, 1000 + ticks, 5000 + mono);
    from_text(&format!("Trace Go1.26\n{generations}")).expect("a trace")
}

#[test]
fn a_clock_that_runs_at_another_speed_is_told() {
    let mut checked = 0;
    // A second by the clock of the trace.
    let second = 15_625_000;
    for (ticks, mono, told) in [
        (second, 1_000_000_000, 0),
        (second, 1_009_000_000, 0),
        (second, 1_020_000_000, 1),
        (second, 980_000_000, 1),
        (second, 256_000_000_000, 1),
        (second / 20, 25_000_000, 0),
    ] {
        let bytes = two_clocks(ticks, mono);
        let mut reader = strict(&bytes).expect("a trace");
        let (events, error) = drain(&mut reader);
        assert!(error.is_none() && events.len() == 4, "{error:?}");
        assert_eq!(
            reader.anomalies().count(AnomalyKind::ClockRate),
            told,
            "{ticks} {mono}"
        );
        checked += 1;
    }
    assert_eq!(checked, 6);
}

#[test]
fn unknown_experiments_are_counted_and_their_own_events_kept() {
    let text = format!(
        "ExperimentalBatch exp=9 gen=1 m=0 time=1\n\tdata=\"what\"\n{}",
        generation(
            1,
            &[(
                0,
                &format!("{P0}\nSpanAlloc dt=1 id=5 npages_value=2 kindclass=6")
            )]
        )
    );
    let mut reader = strict(&parse(&text)).expect("a trace");
    let (events, error) = drain(&mut reader);
    assert!(error.is_none(), "{error:?}");
    let experiment = reader
        .anomalies()
        .get(AnomalyKind::UnknownExperiment)
        .expect("counted");
    assert_eq!((experiment.count, experiment.amount), (1, 4));
    assert_eq!(
        events[2].body,
        Body::Unknown {
            kind: 129,
            args: [5, 2, 6, 0]
        }
    );
}

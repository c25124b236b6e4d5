//! The order of cause: which event of a Go trace may come next, and which has to wait for which.

mod go_support;

use gmp_trace::Body;
use gmp_trace::anomaly::AnomalyKind;
use gmp_trace::event::GState;
use gmp_trace::id::{MId, PId};

use go_support::made::{G1, NONE, P0, accepted, g, generation, one, parse, refused};
use go_support::{drain, lenient};

/// A thread that runs goroutine 2 on P 1.
const OTHER: &str = "ProcStatus dt=1 p=1 pstatus=1\nGoStatus dt=1 g=2 m=1 gstatus=2";

/// Of each rule that can wait: an event at 10 of thread 0 that needs one at 100 of thread 1, and how
/// their kinds begin.
const WAITS: [(&str, &str, &str, &str, [&str; 2]); 10] = [
    (
        "GoUnblock dt=8 g=2 g_seq=1 stack=0",
        "GoBlock dt=98 reason_string=0 stack=0",
        G1,
        OTHER,
        ["GoPark", "GoReady"],
    ),
    (
        "GoStart dt=9 g=5 g_seq=1",
        "GoCreate dt=98 new_g=5 new_stack=0 stack=0",
        "",
        OTHER,
        ["GoCreate", "GoStart"],
    ),
    (
        "GoStart dt=9 g=2 g_seq=1",
        "GoStop dt=98 reason_string=0 stack=0",
        "",
        OTHER,
        ["GoYield", "GoStart"],
    ),
    (
        "GoSwitch dt=8 g=2 g_seq=1",
        "GoBlock dt=98 reason_string=0 stack=0",
        G1,
        OTHER,
        ["GoPark", "GoReady"],
    ),
    (
        "ProcStop dt=5\nProcStart dt=4 p=1 p_seq=1",
        "ProcStop dt=99",
        "",
        "ProcStatus dt=1 p=1 pstatus=1",
        ["ProcStop", "ProcStart"],
    ),
    (
        "ProcStop dt=5\nProcStart dt=4 p=7 p_seq=1",
        "ProcStatus dt=98 p=7 pstatus=2",
        "",
        OTHER,
        ["ProcStatus", "ProcStart"],
    ),
    (
        "ProcSteal dt=9 p=1 p_seq=2 m=1",
        "GoSyscallBegin dt=98 p_seq=1 stack=0",
        "",
        OTHER,
        ["SyscallEnter", "ProcSteal"],
    ),
    (
        "GoSyscallBegin dt=1 p_seq=1 stack=0\nProcStart dt=7 p=7 p_seq=1",
        "ProcSteal dt=97 p=0 p_seq=2 m=0",
        G1,
        "ProcStatus dt=1 p=7 pstatus=2\nProcStatus dt=1 p=1 pstatus=1\nGoStatus dt=1 g=2 m=1 gstatus=2",
        ["ProcSteal", "ProcStart"],
    ),
    (
        "GoSyscallBegin dt=1 p_seq=1 stack=0\nGoSyscallEndBlocked dt=7",
        "ProcSteal dt=98 p=0 p_seq=2 m=0",
        G1,
        OTHER,
        ["ProcSteal", "SyscallExitBlocked"],
    ),
    (
        "GCEnd dt=8 gc_seq=2",
        "GCBegin dt=98 gc_seq=1 stack=0",
        G1,
        OTHER,
        ["GcBegin", "GcEnd"],
    ),
];

#[test]
fn each_rule_waits_for_what_it_needs_and_is_broken_without() {
    let mut checked = 0;
    for (early, late, first, second, kinds) in WAITS {
        let first = format!("{P0}\n{first}\n{early}");
        let events = accepted(&one(&[(0, &first), (1, &format!("{second}\n{late}"))]));
        let place = |m: u64, kind: &str| {
            let last = events.iter().rposition(|event| {
                event.m == MId::new(m) && format!("{:?}", event.body).starts_with(kind)
            });
            last.unwrap_or_else(|| panic!("{early}: no {kind} in {events:#?}"))
        };
        let (before, after) = (place(1, kinds[0]), place(0, kinds[1]));
        assert!(before < after, "{early}: {events:#?}");
        assert!(events[before].time > events[after].time, "{early}");
        let (error, found) = refused(&one(&[(0, &first), (1, second)]));
        assert!(error.contains("all wait"), "{early}: {error}");
        assert!(found.contains(&AnomalyKind::OrderForced), "{early}");
        checked += 1;
    }
    assert_eq!(checked, 10);
}

#[test]
fn samples_come_by_their_time_whatever_their_order_in_the_file() {
    let none = u64::MAX;
    let threads = [(
        0,
        &*format!("{P0}\n{G1}\nGoBlock dt=50 reason_string=0 stack=0"),
    )];
    let sample = |time: u64, m: u64, p: u64, g: u64| {
        format!("CPUSample time={} m={m} p={p} g={g} stack=0\n", 1000 + time)
    };
    let text = format!(
        "{}EventBatch gen=1 m={NONE} time=1000 size=?\nCPUSamples\n{}{}{}",
        generation(1, &threads),
        sample(90, none, none, 0),
        sample(20, 0, 0, 1),
        sample(10, 3, none, 1),
    );
    let events = accepted(&parse(&text));
    let names: Vec<(String, i64)> = events
        .iter()
        .skip(2)
        .map(|event| (format!("{:?}", event.body), event.time.0 / 64))
        .map(|(body, time)| (body[..6].to_owned(), time))
        .collect();
    let expected = [
        ("CpuSam", 10),
        ("CpuSam", 20),
        ("GoPark", 52),
        ("CpuSam", 90),
    ];
    assert_eq!(names, expected.map(|(name, time)| (name.to_owned(), time)));
    let of = |number: usize| (events[number].m, events[number].p, events[number].g);
    assert_eq!(of(2), (MId::new(3), None, Some(g(1))));
    assert_eq!(of(3), (MId::new(0), PId::new(0), Some(g(1))));
    assert_eq!(of(5), (None, None, None));
}

#[test]
fn the_order_of_cause_is_that_of_the_sequence_numbers() {
    // Thread 1 starts goroutine 2 at 20, thread 0 wakes it at 50 by another clock.
    let first = format!("{P0}\n{G1}\nGoUnblock dt=48 g=2 g_seq=1 stack=0");
    let second =
        "ProcStatus dt=1 p=1 pstatus=1\nGoStatus dt=1 g=2 m=1 gstatus=4\nGoStart dt=18 g=2 g_seq=2";
    let bytes = one(&[(0, &first), (1, second)]);
    let events = accepted(&bytes);
    let bodies: Vec<Body> = events.iter().skip(4).map(|event| event.body).collect();
    assert_eq!(
        bodies,
        [
            Body::GoReady {
                goroutine: g(2),
                by: None,
                stack: None
            },
            Body::GoStart { found: None }
        ]
    );
    assert!(events[4].time > events[5].time && events[4].order < events[5].order);
    let mut reader = lenient(&bytes).expect("a trace");
    drain(&mut reader);
    let skew = reader
        .anomalies()
        .get(AnomalyKind::ClockSkew)
        .expect("counted");
    assert_eq!((skew.count, skew.amount), (1, 30 * 64));
    // The context: a start shows the goroutine that starts.
    assert_eq!(
        (events[5].m, events[5].p, events[5].g),
        (MId::new(1), PId::new(1), Some(g(2)))
    );
    assert_eq!(events[4].g, Some(g(1)));
}

#[test]
fn sequence_numbers_belong_to_their_generation() {
    // In generation 2 thread 1 starts goroutine 2 with number 2, which would follow the last one of
    // generation 1 as well.
    let first = generation(
        1,
        &[
            (
                0,
                &format!("{P0}\n{G1}\nGoUnblock dt=1 g=2 g_seq=1 stack=0"),
            ),
            (1, "GoStatus dt=1 g=2 m=1 gstatus=4"),
        ],
    );
    let second = generation(
        2,
        &[
            (1, "ProcStatus dt=1 p=1 pstatus=1\nGoStart dt=1 g=2 g_seq=2"),
            (
                0,
                &format!("{P0}\n{G1}\nGoStatus dt=50 g=2 m=0 gstatus=1\nGoStart dt=1 g=3 g_seq=1"),
            ),
        ],
    );
    let (error, kinds) = refused(&parse(&(first + &second)));
    assert!(error.contains("all wait"), "{error}");
    assert!(kinds.contains(&AnomalyKind::OrderForced));
}

#[test]
fn a_p_is_stolen_from_the_system_call_that_lost_it() {
    // Thread 0 is in its second system call when thread 1 takes its P, and comes back without.
    let first = format!(
        "{P0}\n{G1}\nGoSyscallBegin dt=1 p_seq=1 stack=0\nGoSyscallEnd dt=1\n\
         GoSyscallBegin dt=1 p_seq=2 stack=0\nGoSyscallEndBlocked dt=1"
    );
    let second = "ProcStatus dt=1 p=1 pstatus=1\nProcSteal dt=1 p=0 p_seq=3 m=0\nProcStop dt=1\nProcStart dt=1 p=0 p_seq=4";
    let events = accepted(&one(&[(0, &first), (1, second)]));
    let place = |wanted: fn(&Body) -> bool| {
        events
            .iter()
            .position(|event| wanted(&event.body))
            .expect("an event")
    };
    let steal = place(|body| {
        matches!(
            body,
            Body::ProcSteal {
                from_m: Some(_),
                ..
            }
        )
    });
    assert!(steal < place(|body| matches!(body, Body::SyscallExitBlocked)));
    assert!(place(|body| matches!(body, Body::SyscallExit)) < steal);
    assert_eq!(events[steal].m, MId::new(1));
    let blocked = &events[place(|body| matches!(body, Body::SyscallExitBlocked))];
    assert_eq!((blocked.p, blocked.g), (None, Some(g(1))));
    assert_eq!(events.len(), 10);
}

#[test]
fn a_thread_of_c_begins_and_ends_in_a_system_call() {
    // Its P is given up with its goroutine, and can be taken by others although the thread number is
    // used again.
    let first = "GoCreateSyscall dt=1 new_g=4\nProcStart dt=5 p=0 p_seq=1\n\
                 GoSyscallEndBlocked dt=1\nGoStart dt=1 g=4 g_seq=1\n\
                 GoSyscallBegin dt=1 p_seq=2 stack=0\nGoDestroySyscall dt=1\n\
                 GoCreateSyscall dt=1 new_g=5\nGoDestroySyscall dt=1";
    let second = "ProcStatus dt=1 p=0 pstatus=2\nProcStatus dt=1 p=1 pstatus=1\n\
                  ProcSteal dt=50 p=0 p_seq=3 m=7";
    let events = accepted(&one(&[(7, first), (1, second)]));
    let created = events
        .iter()
        .position(|e| matches!(e.body, Body::GoCreate { .. }))
        .expect("made");
    assert!(matches!(
        (events[created].body, events[created + 1].body),
        (
            Body::GoCreate { child, runnable: false, .. },
            Body::GoStatus { goroutine, state: GState::Syscall, on_m: Some(_), .. }
        ) if child == g(4) && goroutine == child
    ));
    let steals: Vec<_> = events
        .iter()
        .filter_map(|event| match event.body {
            Body::ProcSteal { from_m, .. } => Some(from_m),
            _ => None,
        })
        .collect();
    assert_eq!(steals, [MId::new(7), None]);
}

#[test]
fn a_switch_is_three_events() {
    let events = format!(
        "{P0}\n{G1}\nGoCreateBlocked dt=1 new_g=2 new_stack=0 stack=0\nGoSwitch dt=1 g=2 g_seq=1\n\
         GoSwitchDestroy dt=1 g=1 g_seq=1"
    );
    let events = accepted(&one(&[(0, &events)]));
    let names: Vec<&str> = events
        .iter()
        .skip(3)
        .map(|event| match event.body {
            Body::GoReady { .. } => "ready",
            Body::GoPark { .. } => "park",
            Body::GoExit { .. } => "exit",
            Body::GoStart { .. } => "start",
            _ => "other",
        })
        .collect();
    assert_eq!(names, ["ready", "park", "start", "ready", "exit", "start"]);
    assert_eq!((events[4].g, events[5].g), (Some(g(1)), Some(g(2))));
}

#[test]
fn many_threads_that_wait_for_one_goroutine_are_woken_in_turn() {
    // A thousand threads, of which each starts the goroutine that the one before has made runnable,
    // and all of whose clocks run backwards.
    const THREADS: u64 = 1000;
    let mut threads = vec![(NONE - 1, String::from("GoStatus dt=1 g=1 m=5 gstatus=1"))];
    for m in 0..THREADS {
        let late = 2 * (THREADS - m);
        threads.push((
            m,
            format!(
                "ProcStatus dt=1 p={m} pstatus=1\nGoStart dt={late} g=1 g_seq={}\n\
                 GoStop dt=1 reason_string=0 stack=0",
                m + 1
            ),
        ));
    }
    let threads: Vec<(u64, &str)> = threads
        .iter()
        .map(|(m, text)| (*m, text.as_str()))
        .collect();
    let events = accepted(&one(&threads));
    let starts = events
        .iter()
        .filter(|event| matches!(event.body, Body::GoStart { .. }));
    let by: Vec<u64> = starts.filter_map(|event| event.m.map(MId::get)).collect();
    assert!(by.iter().copied().eq(0..THREADS), "{by:?}");
}

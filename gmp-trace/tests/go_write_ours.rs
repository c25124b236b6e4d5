//! Traces of ours written as traces of Go: read back they say the same as far as Go can say it, and
//! Go's own tools open them.

#[cfg(feature = "testgen")]
#[path = "support/configs.rs"]
mod configs;
mod go_support;

use std::collections::BTreeMap;
use std::io::Read;

use gmp_trace::event::PState;
use gmp_trace::tables::{SiteRef, StackRef, Tables, Text};
use gmp_trace::{Body, Event};
use go_support::tool;
#[cfg(feature = "testgen")]
use go_support::written::write_what_is_left;
use go_support::written::{Written, frames, write};

/// Events of ours for which Go has nothing, or that it takes only sometimes.
const LEFT_OUT: &[&str] = &[
    "GoPreemptRequested",
    "RunWithoutP",
    "Steal",
    "StealFailed",
    "RunqOverflow",
    "GlobalBatch",
    "MCreate",
    "MExit",
    "MPark",
    "MWake",
    "SpinBegin",
    "SpinEnd",
    "MLock",
    "MUnlock",
    "MCpu",
    "SchedSample",
    "Netpoll",
    "TimerFired",
    "SafePoint",
    "Stopped",
    "Loss",
    "Unknown",
    // Other figures than those of the heap.
    "Metric",
    // An empty one.
    "GoLabel",
    // Of a collection that runs or does not, against what was said before.
    "GcBegin",
    "GcActive",
    "GcEnd",
    // Of one that has begun, or has not.
    "TaskBegin",
    "StopRequested",
    "Restarted",
    // Not the innermost.
    "RegionEnd",
];

fn place(site: Option<SiteRef>, tables: &Tables, name: bool) -> Vec<String> {
    let site = site.and_then(|site| tables.site(site));
    let place = |site: &gmp_trace::tables::Site| {
        let (function, file) = (tables.text(site.function), tables.text(site.file));
        let short = file.rsplit('/').next().unwrap_or(file);
        let named = if name && !function.is_empty() {
            function.to_owned()
        } else {
            format!("{short}:{}", site.line)
        };
        format!("{named} {file}:{}", site.line)
    };
    site.map(place).into_iter().collect()
}

/// What is to be read back of an event of ours.
fn as_go(event: &Event, tables: &Tables) -> String {
    let mut event = *event;
    let mut stacks = Vec::new();
    // A frame's function and address are those that it gets; its place stays.
    let kept = |stack: Option<StackRef>| {
        let frames = stack.map_or(&[][..], |stack| tables.stack(stack));
        let line = |frame: &gmp_trace::tables::Frame| format!("{:#x} ?:1", frame.pc);
        frames.iter().map(line).collect::<Vec<_>>()
    };
    match &mut event.body {
        Body::GoCreate { site, stack, .. } => {
            stacks.push(place(*site, tables, true));
            stacks.push(if stack.is_some() {
                kept(*stack)
            } else {
                place(*site, tables, false)
            });
        }
        Body::GoPark { site, stack, .. } | Body::SyscallEnter { site, stack } => {
            stacks.push(if stack.is_some() {
                kept(*stack)
            } else {
                place(*site, tables, true)
            });
        }
        Body::GoStatus {
            site,
            created_at,
            stack,
            ..
        } => {
            let at = if stack.is_some() {
                kept(*stack)
            } else {
                place(*site, tables, true)
            };
            stacks.push([at, place(*created_at, tables, true)].concat());
        }
        Body::GoYield { stack }
        | Body::GoPreempted { stack, .. }
        | Body::GoReady { stack, .. }
        | Body::CpuSample { stack }
        | Body::StopRequested { stack, .. }
        | Body::TaskBegin { stack, .. }
        | Body::TaskEnd { stack, .. }
        | Body::RegionBegin { stack, .. }
        | Body::RegionEnd { stack, .. }
        | Body::Log { stack, .. } => stacks.push(kept(*stack)),
        _ => {}
    }
    said(&event, stacks, tables)
}

/// What was read back, in the same words.
fn of_go(event: &Event, tables: &Tables) -> String {
    let stacks = match event.body {
        Body::GoCreate {
            stack, start_stack, ..
        } => vec![start_stack, stack],
        Body::GoPark { stack, .. }
        | Body::SyscallEnter { stack, .. }
        | Body::GoStatus { stack, .. }
        | Body::GoYield { stack }
        | Body::GoPreempted { stack, .. }
        | Body::GoReady { stack, .. }
        | Body::CpuSample { stack }
        | Body::StopRequested { stack, .. }
        | Body::TaskBegin { stack, .. }
        | Body::TaskEnd { stack, .. }
        | Body::RegionBegin { stack, .. }
        | Body::RegionEnd { stack, .. }
        | Body::Log { stack, .. } => vec![stack],
        _ => Vec::new(),
    };
    let without_address = |line: String| line[..line.rfind(' ').expect("an address")].to_owned();
    let stacks = stacks.into_iter().map(|stack| {
        let lines = frames(stack, tables).into_iter();
        lines.map(without_address).collect()
    });
    said(event, stacks.collect(), tables)
}

/// What is the same of an event of ours and of Go's.
fn said(event: &Event, stacks: Vec<Vec<String>>, tables: &Tables) -> String {
    let word = |of: Text| match tables.text(of) {
        "IO wait" => "network",
        "semacquire" => "sync",
        "join" => "sync.join",
        "wait for GC cycle" => "wait until GC ends",
        other => other,
    };
    let body = match event.body {
        Body::GoCreate { child, .. } => format!("create {child:?}"),
        Body::GoStart { .. } => "start".to_owned(),
        Body::GoYield { .. } => "yield".to_owned(),
        Body::GoPreempted { .. } => "preempted".to_owned(),
        Body::GoPark { reason, .. } => format!("park {}", word(reason)),
        Body::GoReady { goroutine, .. } => format!("ready {goroutine:?}"),
        Body::GoExit { .. } => "exit".to_owned(),
        Body::GoLabel { label } => format!("label {}", word(label)),
        Body::GoStatus {
            goroutine, state, ..
        } => format!("status {goroutine:?} {state:?}"),
        Body::SyscallEnter { .. } => "call".to_owned(),
        Body::SyscallExit => "call ends".to_owned(),
        Body::SyscallExitBlocked => "call ends without P".to_owned(),
        Body::ProcStart => "P starts".to_owned(),
        Body::ProcStop | Body::ProcHandoff { .. } => "P stops".to_owned(),
        Body::ProcSteal { victim, from_m, .. } => format!("{victim:?} stolen of {from_m:?}"),
        Body::ProcStatus { proc, state, on_m } => {
            let on_m = on_m.filter(|_| state != PState::Idle);
            format!("status {proc:?} {state:?} {on_m:?}")
        }
        Body::ProcsChange { procs, .. } => format!("{procs} Ps"),
        Body::StopRequested { kind, .. } => format!("stop {}", word(kind)),
        Body::Restarted => "restarted".to_owned(),
        Body::GcBegin { .. } | Body::GcActive { .. } => "collection begins".to_owned(),
        Body::GcEnd { .. } => "collection ends".to_owned(),
        Body::TaskBegin {
            task, parent, name, ..
        } => format!("task {task:?} {parent:?} {}", word(name)),
        Body::TaskEnd { task, .. } => format!("task ends {task:?}"),
        Body::RegionBegin { task, name, .. } => format!("region {task:?} {}", word(name)),
        Body::RegionEnd { task, name, .. } => format!("region ends {task:?} {}", word(name)),
        Body::Log {
            task, key, value, ..
        } => format!("log {task:?} {} {}", word(key), word(value)),
        Body::CpuSample { .. } => "sample".to_owned(),
        // The wall clock of played programs stands still, and Go wants it to go on.
        Body::Sync { mono, .. } => format!("generation {mono:?}"),
        other => format!("{other:?}"),
    };
    format!(
        "{:?} {:?} {:?} {body} {stacks:?}",
        event.time, event.p, event.g
    )
}

fn name(body: &Body) -> String {
    let name = format!("{body:?}");
    let end = name
        .find(|c: char| !c.is_alphanumeric())
        .unwrap_or(name.len());
    name[..end].to_owned()
}

/// Events of a lane keep their order: those of a thread, statuses of what a thread has among them, and
/// samples, which are in the order of their own times.
fn lane_of(event: &Event) -> (Option<gmp_trace::id::MId>, bool) {
    let on_m = match event.body {
        Body::GoStatus { on_m, .. } => on_m,
        Body::ProcStatus { on_m, state, .. } if state != PState::Idle => on_m,
        _ => None,
    };
    (
        on_m.or(event.m),
        matches!(event.body, Body::CpuSample { .. }),
    )
}

/// What was read back, without the P and the goroutine that the thread has at a status that another
/// thread tells, or a control block, which is of no thread. The recorded event has what the one who
/// tells has; Go wants the status in the batch of the thread that it is about, and its reader gives
/// what that one has. What the status is about, its state and its thread are compared all the same.
fn told_by(recorded: &Event, back: &Event) -> Event {
    let mut back = *back;
    let is_status = |body| matches!(body, Body::GoStatus { .. } | Body::ProcStatus { .. });
    if recorded.m != back.m && is_status(recorded.body) && is_status(back.body) {
        (back.p, back.g) = (recorded.p, recorded.g);
    }
    back
}

/// Of each thread what is read back is what was written, less what is left out.
fn same_by_thread(written: &Written, what: &str) {
    assert!(
        written.outcome.added.is_empty(),
        "{what}: {:?}",
        written.outcome.added
    );
    assert_eq!(written.back.len() as u64, written.outcome.events, "{what}");
    same_events(written, what);
}

/// Events that say who holds which P.
#[cfg(feature = "testgen")]
const OF_PROCS: [&str; 5] = [
    "ProcHandoff",
    "ProcStart",
    "ProcStatus",
    "ProcSteal",
    "ProcStop",
];

/// As [`same_by_thread`], but for who holds which P.
#[cfg(feature = "testgen")]
fn same_but_for_procs(written: &mut Written, what: &str) {
    for events in [&mut written.events, &mut written.back] {
        events.retain(|event| !OF_PROCS.contains(&name(&event.body).as_str()));
        events.iter_mut().for_each(|event| event.p = None);
    }
    written
        .outcome
        .left_out
        .retain(|kind, _| !OF_PROCS.contains(kind));
    same_events(written, what);
}

/// Each event is read back, or left out and counted, in the order of its thread.
fn same_events(written: &Written, what: &str) {
    for kind in written.outcome.left_out.keys() {
        assert!(LEFT_OUT.contains(kind), "{what}: {kind}");
    }
    let mut got: BTreeMap<_, std::collections::VecDeque<Event>> = BTreeMap::new();
    for event in &written.back {
        got.entry(lane_of(event)).or_default().push_back(*event);
    }
    let mut skipped: BTreeMap<String, u64> = BTreeMap::new();
    for event in &written.events {
        let lane = lane_of(event);
        let meant = as_go(event, &written.tables);
        let lane = got.entry(lane).or_default();
        let front = lane.front().map(|back| {
            let back = told_by(event, back);
            of_go(&back, &written.back_tables)
        });
        if front.as_ref() == Some(&meant) {
            lane.pop_front();
            continue;
        }
        let kind = name(&event.body);
        assert!(
            written.outcome.left_out.contains_key(kind.as_str()),
            "{what}: event {}: meant {meant}, read back {:?}",
            event.order,
            front
        );
        *skipped.entry(kind).or_default() += 1;
    }
    let left_out: BTreeMap<String, u64> = written
        .outcome
        .left_out
        .iter()
        .map(|(kind, count)| ((*kind).to_owned(), *count))
        .collect();
    assert_eq!(skipped, left_out, "{what}");
    let more: usize = got.values().map(std::collections::VecDeque::len).sum();
    assert_eq!(more, 0, "{what}: read back and not written");
}

fn native(name: &str) -> Vec<u8> {
    let path = go_support::fixtures().join(format!("../gmp/{name}.gmpt"));
    std::fs::read(path).expect("a fixture")
}

/// Whole traces of ours.
const NATIVE: [&str; 4] = ["channels", "everything", "packed", "skewed"];

#[test]
fn a_trace_of_ours_is_read_back_as_far_as_go_can_say_it() {
    let mut checked = 0;
    for name in NATIVE {
        let written = write(&native(name), name);
        same_by_thread(&written, name);
        assert_eq!(written.outcome.version, 26);
        checked += written.back.len();
    }
    assert!(checked > 8_000, "{checked}");
}

/// Times may be before the first event, and clocks may be set back.
#[test]
fn clocks_of_generations_go_on() {
    let written = write(&native("everything"), "everything");
    let walls: Vec<i64> = written
        .back
        .iter()
        .filter_map(|event| match event.body {
            Body::Sync { wall, .. } => wall.map(|wall| wall.0),
            _ => None,
        })
        .collect();
    assert!(
        walls.len() == 3 && walls.is_sorted_by(|a, b| a < b),
        "{walls:?}"
    );
}

/// Text of a trace of ours with one generation, in which M 0 has P 0 and runs G 1 when it begins.
fn ours(records: &str) -> Vec<u8> {
    let text = format!(
        "gmp trace 1.0\nclock 1000000000\n\
         block control generation=1 sequence=0 base=1000\n\
         GenBegin generation_count=1\n\
         ClockPair trace_ticks=1000 mono_nanos=5000 wall_nanos=1700000000000000000\n\
         ProcStatus:running dt=0 p=0 on_optional_m=1\n\
         ProcStatus:idle dt=0 p=1 on_optional_m=0\n\
         GoStatus:running dt=0 g=1 on_optional_m=1 reason_text=\"\" object=0 wait_site=0 \
         created_site=0 creator_goroutine=0 label_text=\"\"\n{records}"
    );
    gmp_trace::text::from_text(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Compares the Ms and the names of the events that are read back, without the statuses at the
/// beginning.
fn assert_read_back(written: &Written, meant: &[(u64, &str)]) {
    let after = written.back.iter().filter(|event| {
        !matches!(
            event.body,
            Body::Sync { .. } | Body::GoStatus { .. } | Body::ProcStatus { .. }
        )
    });
    let said: Vec<(Option<u64>, String)> = after
        .map(|event| (event.m.map(|m| m.get()), name(&event.body)))
        .collect();
    let meant = meant.iter().map(|&(m, name)| (Some(m), name.to_owned()));
    assert_eq!(said, meant.collect::<Vec<_>>());
}

#[test]
fn a_frozen_goroutine_is_a_preempted_one_and_its_p_stops() {
    let bytes = ours(
        "block events generation=1 sequence=0 m=0 base=1000 g=1 p=0\n\
         Preempted:signal dt=10\n\
         Start:wired dt=100 g=1 seq=1\n\
         block events generation=1 sequence=0 m=1 base=1000\n\
         ProcSteal:frozen dt=20 victim_p=0 seq=1 from_optional_m=1\n\
         ProcStart dt=1 p=0 seq=2\n\
         ProcHandoff:wired dt=50 to_optional_m=1\n",
    );
    let written = write(&bytes, "frozen");
    // The trace does not say with which P it goes on: it gets one that is idle.
    assert_read_back(
        &written,
        &[
            (0, "GoPreempted"),
            (0, "ProcStop"),
            (1, "ProcStart"),
            (1, "ProcStop"),
            (0, "ProcStart"),
            (0, "GoStart"),
        ],
    );
    assert_eq!(written.outcome.added, BTreeMap::from([("ProcStart", 1)]));
}

#[test]
fn a_call_that_nobody_announced_is_one_that_loses_its_p() {
    let bytes = ours(
        "block events generation=1 sequence=0 m=0 base=1000 g=1 p=0\n\
         RunWithoutP dt=100\n\
         Preempted:cooperative dt=10\n\
         block events generation=1 sequence=0 m=1 base=1000\n\
         SyscallImplicit dt=20 g=1 on_m=0\n\
         ProcSteal:implicit-syscall dt=0 victim_p=0 seq=1 from_optional_m=1\n\
         ProcStart dt=1 p=0 seq=2\n\
         Start:global dt=200 g=1 seq=1\n",
    );
    let written = write(&bytes, "implicit");
    assert_read_back(
        &written,
        &[
            (0, "SyscallEnter"),
            (1, "ProcSteal"),
            (1, "ProcStart"),
            (0, "SyscallExitBlocked"),
            (1, "GoStart"),
        ],
    );
    assert_eq!(
        written.outcome.left_out,
        BTreeMap::from([("RunWithoutP", 1)])
    );
    assert!(
        written.outcome.added.is_empty(),
        "{:?}",
        written.outcome.added
    );
}

#[test]
fn a_call_that_ends_with_another_p_starts_again() {
    let bytes = ours(
        "block events generation=1 sequence=0 m=0 base=1000 g=1 p=0\n\
         SyscallEnter dt=10 call_site=0 stack=0\n\
         ProcHandoff:syscall dt=5 to_optional_m=2\n\
         ProcStart dt=40 p=1 seq=1\n\
         SyscallExit dt=1\n",
    );
    let written = write(&bytes, "another P");
    assert_read_back(
        &written,
        &[
            (0, "SyscallEnter"),
            (0, "ProcStop"),
            (0, "ProcStart"),
            (0, "SyscallExitBlocked"),
            (0, "GoStart"),
        ],
    );
    assert_eq!(written.outcome.added, BTreeMap::from([("GoStart", 1)]));
}

#[cfg(feature = "testgen")]
mod played {
    use super::*;
    use gmp_trace::testgen::{Config, killed_program, program};
    use proptest::prelude::*;

    /// Clocks that are apart in one case of two.
    fn any_config() -> impl Strategy<Value = Config> {
        (configs::any_config(), 0..60_000u64).prop_map(|(config, skew)| Config {
            skew: if skew > 30_000 { 0 } else { skew },
            ..config
        })
    }

    /// The known limit: where clocks differ, a P that was in a call when a generation began is told of
    /// and stolen after the call has ended. Then events of Ps are added, and nothing else.
    fn is_stolen_late(config: &Config, written: &Written) -> bool {
        let added = &written.outcome.added;
        let of_procs = |kind: &&str| ["ProcStart", "ProcStatus", "ProcStop"].contains(kind);
        let can_be = config.skew > 0 && config.generations > 1;
        can_be && added.contains_key("ProcStart") && added.keys().all(of_procs)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn programs_are_read_back_as_far_as_go_can_say_them(
            seed in any::<u64>(),
            config in any_config(),
        ) {
            let mut written = write(&program(seed, &config).bytes, "a program");
            if is_stolen_late(&config, &written) {
                same_but_for_procs(&mut written, "a program with a late steal");
            } else {
                same_by_thread(&written, "a program");
            }
        }

        #[test]
        fn what_is_left_of_a_program_is_written_whole(
            seed in any::<u64>(),
            config in any_config(),
            at in any::<prop::sample::Index>(),
            take_out in 0..3000usize,
        ) {
            let mut bytes = killed_program(seed, &config).bytes;
            let from = 400 + at.index(bytes.len() - 400);
            let end = (from + take_out).min(bytes.len());
            bytes.drain(from..end);
            write_what_is_left(&bytes, "part of a program");
        }
    }

    /// What is left of this program has a second collection that begins, by the clock of its thread,
    /// before what comes before the first one.
    #[test]
    fn a_later_collection_is_not_taken_for_the_first() {
        let config = Config {
            goroutines: 6,
            ms: 5,
            ps: 3,
            events: 256,
            generations: 1,
            ..Config::default()
        };
        let mut bytes = killed_program(2_541_868_394_522_079_723, &config).bytes;
        let at = (2_665_044_684_015_827_181 * (bytes.len() as u128 - 400)) >> 64;
        bytes.remove(400 + at as usize);
        let written = write(&bytes, "part of a program");
        assert_eq!(written.outcome.left_out.get("GcBegin"), Some(&1));
        let begins = |event: &&Event| matches!(event.body, Body::GcBegin { .. });
        assert_eq!(written.back.iter().filter(begins).count(), 1);
    }

    /// Of this program a P is stolen late, and a status is told by a thread that should not have it any
    /// more.
    #[test]
    fn all_but_ps_is_the_same_where_one_is_stolen_late() {
        let config = Config {
            goroutines: 13,
            ms: 4,
            ps: 2,
            events: 628,
            generations: 2,
            skew: 3460,
            ..Config::default()
        };
        let program = program(7_532_074_033_708_438_534, &config);
        let mut written = write(&program.bytes, "a program");
        assert!(is_stolen_late(&config, &written));
        same_but_for_procs(&mut written, "a program with a late steal");
    }

    #[test]
    fn go_opens_what_was_played() {
        let Some(tool) = tool::tool() else { return };
        let mut checked = 0;
        for seed in 0..12 {
            let config = Config {
                generations: 1 + seed as u32 % 3,
                ms: 1 + seed as usize % 5,
                skew: (seed % 2) * 40_000,
                ..Config::default()
            };
            let program = match seed % 3 {
                0 => killed_program(seed, &config),
                _ => program(seed, &config),
            };
            let written = write(&program.bytes, "a program");
            checked += tool.validate(&written.bytes, &format!("seed {seed}"));
        }
        assert!(checked > 10_000, "{checked}");
    }
}

#[test]
fn go_makes_profiles_of_a_trace_of_ours() {
    let Some(tool) = tool::tool() else { return };
    for name in NATIVE {
        tool.validate(&write(&native(name), name).bytes, name);
    }
    let written = write(&native("everything"), "everything").bytes;
    let mut checked = 0;
    for (kind, wanted) in [
        ("sync", "main::worker"),
        ("sched", ""),
        ("syscall", ""),
        ("net", ""),
    ] {
        let packed = tool.profile(kind, &written);
        let mut profile = Vec::new();
        let mut unpacker = flate2::read::GzDecoder::new(packed.as_slice());
        unpacker.read_to_end(&mut profile).expect("a profile");
        let has = |word: &str| profile.windows(word.len()).any(|w| w == word.as_bytes());
        assert!(has("contentions"), "{kind}");
        assert!(wanted.is_empty() || has(wanted), "{kind} has no {wanted}");
        checked += 1;
    }
    assert_eq!(checked, 4);
}

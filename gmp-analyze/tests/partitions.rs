//! The states of every goroutine, P and thread partition its life: for any events whatever, and
//! for those of a legal scheduler without a single anomaly.

mod common;

use common::expected::made;
use common::{Partitions, Random, g, m, p};
use gmp_analyze::analysis::collect::Collector;
use gmp_analyze::diag::Kind;
use gmp_analyze::machine::{GoroutineState, Machine, ProcState};
use gmp_analyze::{input, session};
use gmp_trace::event::*;
use gmp_trace::id::{GId, ObjectId};
use gmp_trace::tables::Text;
use gmp_trace::time::Nanos;
use gmp_trace::{Body, Event, testgen};
use std::path::Path;

/// Any event: often one that cannot follow those before it.
fn any_body(random: &mut Random) -> Body {
    let goroutine = g(1 + random.below(6));
    let on_m = random.chance(50).then(|| m(random.below(4)));
    let proc = p(random.below(4) as u32);
    match random.below(26) {
        0 | 1 => Body::GoCreate {
            child: goroutine,
            site: None,
            stack: None,
            start_stack: None,
            runnable: random.chance(90),
        },
        2..=5 => Body::GoStart {
            found: Some(Found::Local),
        },
        6 => Body::GoYield { stack: None },
        7 => Body::GoPreempted {
            how: Preemption::Signal,
            stack: None,
        },
        8 | 9 => Body::GoPark {
            reason: Text::CHAN_SEND,
            object: ObjectId::new(random.below(3)),
            site: None,
            stack: None,
        },
        10 | 11 => Body::GoReady {
            goroutine,
            by: Some(Waker::Goroutine),
            stack: None,
        },
        12 => Body::GoExit { how: None },
        13 => Body::GoStatus {
            goroutine,
            state: [
                GState::Runnable,
                GState::Running,
                GState::Syscall,
                GState::Waiting,
            ][random.below(4) as usize],
            on_m,
            reason: None,
            object: None,
            site: None,
            created_at: None,
            creator: None,
            label: None,
            stack: None,
        },
        14 => Body::SyscallEnter {
            site: None,
            stack: None,
        },
        15 => Body::SyscallExit,
        16 => Body::SyscallExitBlocked,
        17 => Body::SyscallImplicit {
            goroutine,
            on_m: m(random.below(4)),
        },
        18 => Body::ProcStart,
        19 => Body::ProcStop,
        20 => Body::ProcSteal {
            victim: proc,
            from_m: on_m,
            why: None,
        },
        21 => Body::ProcHandoff {
            to_m: on_m,
            why: HandoffReason::Frozen,
        },
        22 => {
            let state = [PState::Running, PState::Idle, PState::Syscall][random.below(3) as usize];
            Body::ProcStatus { proc, state, on_m }
        }
        23 => Body::ProcsChange {
            procs: random.below(5) as u32,
            stack: None,
        },
        24 => [
            Body::SafePoint {
                how: Preemption::Signal,
            },
            Body::Stopped,
            Body::Restarted,
        ][random.below(3) as usize],
        _ => [
            Body::RunWithoutP,
            Body::MExit,
            Body::MPark,
            Body::SpinBegin,
            Body::MCreate {
                child: m(random.below(5)),
            },
            Body::MWake {
                target: m(random.below(5)),
            },
            Body::Sync {
                generation: 1,
                mono: None,
                wall: None,
            },
        ][random.below(7) as usize],
    }
}

#[test]
fn any_events_are_partitioned_exactly() {
    let mut anomalies = 0;
    let mut goroutines = 0;
    for seed in 1..400 {
        let mut random = Random(seed);
        let mut machine = Machine::new((Collector::new(true), Partitions::default()));
        let mut now: i64 = 0;
        for order in 0..300 {
            // Time steps back one time in five.
            now += random.below(1000) as i64 - if random.chance(20) { 800 } else { 0 };
            let absurd = [i64::MIN, i64::MAX][random.below(2) as usize];
            let event = Event {
                time: Nanos(if seed % 10 == 0 && random.chance(3) {
                    absurd
                } else {
                    now
                }),
                order,
                m: random.chance(95).then(|| m(random.below(4))),
                p: random.chance(90).then(|| p(random.below(4) as u32)),
                g: random.chance(90).then(|| g(1 + random.below(6))),
                body: any_body(&mut random),
            };
            machine.event(&event);
        }
        let outcome = machine.finish();
        assert_eq!(
            outcome.counts.count(Kind::PartitionBroken),
            0,
            "seed {seed}"
        );
        anomalies += outcome.counts.count(Kind::GoroutineSequence);
        let (collector, partitions) = outcome.sink;
        partitions.check(outcome.begin, outcome.end);
        goroutines += partitions.goroutines;
        check_lives(&collector, outcome.begin, outcome.end);
    }
    assert!(anomalies > 1000, "{anomalies}");
    assert!(goroutines > 1000, "{goroutines}");
}

/// The sums of the report's collector equal lives and trace.
fn check_lives(collector: &Collector, begin: Nanos, end: Nanos) {
    let mut checked = 0;
    for proc in collector.utilization.procs() {
        let sum: i64 = proc.time.iter().map(|time| time.0).sum();
        assert_eq!(sum, end.0 - begin.0, "{:?}", proc.proc);
        checked += 1;
    }
    let lives = collector.lives.clone().expect("asked for").into_lives();
    for life in &lives {
        let sum: i64 = life.time.iter().map(|time| time.0).sum();
        assert_eq!(sum, life.end.0 - life.born.0, "{life:?}");
        let waits: i64 = life.waits.iter().map(|wait| wait.1.0).sum();
        assert_eq!(waits, life.time[GoroutineState::Waiting as usize].0);
        checked += 1;
    }
    // Additions of `Nanos` end at the largest time, on both sides.
    let sum = |times: &mut dyn Iterator<Item = Nanos>| times.fold(Nanos::ZERO, |a, b| a + b);
    let groups = collector.groups.groups();
    let life = sum(&mut lives.iter().map(|life| life.end - life.born));
    let grouped = sum(&mut groups.iter().map(|group| group.life));
    let states = sum(&mut groups.iter().flat_map(|group| group.time));
    assert_eq!((life, life), (grouped, states));
    assert!(checked > 0);
}

/// A legal scheduler of a few Ps: what it records has no anomaly, and goroutines run exactly when
/// Ps do.
#[test]
fn a_legal_scheduler_has_no_anomaly_and_its_ps_run_when_its_goroutines_do() {
    let mut wakes = 0;
    for seed in 1..200 {
        let events = legal_events(&mut Random(seed));
        let mut machine = Machine::new((Collector::new(true), Partitions::default()));
        for event in &events {
            machine.event(event);
        }
        let outcome = machine.finish();
        assert_eq!(outcome.counts.to_anomalies(), vec![], "seed {seed}");
        let (collector, partitions) = outcome.sink;
        partitions.check(outcome.begin, outcome.end);
        check_lives(&collector, outcome.begin, outcome.end);
        assert_eq!(partitions.running, partitions.proc_running, "seed {seed}");
        let running: i128 = collector
            .utilization
            .procs()
            .iter()
            .map(|proc| i128::from(proc.of(ProcState::Running).0))
            .sum();
        assert_eq!(running, partitions.running);
        assert_eq!(collector.parallelism.running_time, running);
        assert_eq!(collector.latencies.overall().count(), partitions.wakes);
        assert_eq!(
            collector.latencies.overall().total(),
            runnable_time_of_wakes(&collector)
        );
        wakes += partitions.wakes;
    }
    assert!(wakes > 1000, "{wakes}");
}

/// Runnable time of goroutines that ran afterwards equals the sum of latencies: those that are
/// still runnable at the end have no latency.
fn runnable_time_of_wakes(collector: &Collector) -> Nanos {
    let groups = collector.groups.groups();
    Nanos(groups.iter().map(|group| group.latency.total().0).sum())
}

fn legal_events(random: &mut Random) -> Vec<Event> {
    let procs = 1 + random.below(4) as u32;
    let mut events: Vec<Event> = Vec::new();
    let mut now = 0;
    let (mut runnable, mut waiting): (Vec<u64>, Vec<u64>) = (vec![1], vec![]);
    let mut on_proc: Vec<Option<u64>> = vec![None; procs as usize];
    let mut in_syscall = vec![false; procs as usize];
    let mut next = 2;
    let mut push = |now, proc: Option<u32>, running: Option<u64>, body| {
        let order = events.len() as u64;
        let context = proc.map(|n| (m(n.into()), p(n)));
        events.push(Event {
            time: Nanos(now),
            order,
            m: context.map(|c| c.0),
            p: context.map(|c| c.1),
            g: running.map(g),
            body,
        });
    };
    for number in 0..procs {
        let body = Body::ProcStatus {
            proc: p(number),
            state: PState::Running,
            on_m: None,
        };
        push(0, None, None, body);
    }
    let made = |child: GId| Body::GoCreate {
        child,
        site: None,
        stack: None,
        start_stack: None,
        runnable: true,
    };
    push(0, None, None, made(g(1)));
    for _ in 0..400 {
        now += random.below(500) as i64;
        let proc = random.below(procs.into()) as u32;
        let place = proc as usize;
        match on_proc[place] {
            None if runnable.is_empty() => {}
            None => {
                let id = runnable.remove(random.below(runnable.len() as u64) as usize);
                on_proc[place] = Some(id);
                push(
                    now,
                    Some(proc),
                    Some(id),
                    Body::GoStart {
                        found: Some(Found::Stolen),
                    },
                );
            }
            Some(id) if in_syscall[place] => {
                in_syscall[place] = false;
                push(now, Some(proc), Some(id), Body::SyscallExit);
            }
            Some(id) => match random.below(7) {
                0 | 1 => {
                    push(now, Some(proc), Some(id), made(g(next)));
                    runnable.push(next);
                    next += 1;
                }
                2 => {
                    let (reason, stack) = (Text::SLEEP, None);
                    let body = Body::GoPark {
                        reason,
                        object: None,
                        site: None,
                        stack,
                    };
                    push(now, Some(proc), Some(id), body);
                    waiting.push(id);
                    on_proc[place] = None;
                }
                3 if !waiting.is_empty() => {
                    let woken = waiting.remove(0);
                    let by = Some(Waker::Goroutine);
                    let body = Body::GoReady {
                        goroutine: g(woken),
                        by,
                        stack: None,
                    };
                    push(now, Some(proc), Some(id), body);
                    runnable.push(woken);
                }
                4 => {
                    in_syscall[place] = true;
                    let body = Body::SyscallEnter {
                        site: None,
                        stack: None,
                    };
                    push(now, Some(proc), Some(id), body);
                }
                5 if id != 1 => {
                    push(now, Some(proc), Some(id), Body::GoExit { how: None });
                    on_proc[place] = None;
                }
                _ => {
                    push(now, Some(proc), Some(id), Body::GoYield { stack: None });
                    runnable.push(id);
                    on_proc[place] = None;
                }
            },
        }
    }
    events
}

/// A P runs while a goroutine runs on it. Only where the clocks of two threads disagree may the two
/// begin at different moments: the goroutine when it was made runnable, the P when its thread says.
#[test]
fn ps_run_as_long_as_the_goroutines_on_them() {
    let (mut same, mut apart) = (0, 0);
    for (name, bytes) in made() {
        let mut reader = gmp_trace::open(std::io::Cursor::new(bytes)).expect("a trace");
        let mut machine = Machine::new(Partitions::default());
        let read = reader.for_each_event(|event, _| machine.event(event));
        read.expect("whole");
        let outcome = machine.finish();
        let steps = outcome.counts.count(Kind::TimeWentBack);
        let most = i128::from(steps) * i128::from(outcome.counts.largest_step_back().0);
        for (proc, [of_goroutines, of_proc]) in outcome.sink.running_on {
            let difference = (of_goroutines - of_proc).abs();
            assert!(
                difference <= most,
                "{name} {proc:?}: {difference} of {most}"
            );
            same += usize::from(difference == 0);
            apart += usize::from(difference > 0);
        }
    }
    assert!(same >= 3 && apart > 0, "{same} {apart}");
}

/// Every trace of the repository, well or damaged.
#[test]
fn recorded_traces_are_partitioned_exactly() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures");
    let (mut checked, mut goroutines) = (0, 0);
    for folder in ["gmp", "bad", "go"] {
        for entry in std::fs::read_dir(fixtures.join(folder)).expect("the fixtures") {
            let path = entry.expect("an entry").path();
            let Ok(mut input) = input::open(path.as_os_str(), false) else {
                continue;
            };
            let sink = (Collector::new(true), Partitions::default());
            let outcome = session::run(&mut input, sink).expect("whole");
            let broken = outcome.counts.count(Kind::PartitionBroken);
            assert_eq!(broken, 0, "{}", path.display());
            let (collector, partitions) = outcome.sink;
            partitions.check(outcome.begin, outcome.end);
            goroutines += partitions.goroutines;
            if partitions.goroutines > 0 {
                check_lives(&collector, outcome.begin, outcome.end);
            }
            checked += 1;
        }
    }
    assert!(checked > 25, "{checked}");
    assert!(goroutines > 1000, "{goroutines}");
}

/// Generated traces of several threads, Ps and generations, with every kind of event, read from
/// their bytes: no anomaly, and the events as they were meant.
#[test]
fn generated_traces_have_no_anomaly() {
    let mut goroutines = 0;
    for seed in 1..30 {
        let config = testgen::Config {
            goroutines: 40,
            ms: 1 + seed as usize % 5,
            ps: 1 + seed as usize % 4,
            events: 3000,
            generations: 1 + seed as u32 % 4,
            ..testgen::Config::default()
        };
        let program = testgen::program(seed, &config);
        let mut reader = gmp_trace::open(std::io::Cursor::new(program.bytes)).expect("a trace");
        let mut machine = Machine::new((Collector::new(true), Partitions::default()));
        let read = reader.for_each_event(|event, _| machine.event(event));
        read.expect("whole");
        let outcome = machine.finish();
        assert_eq!(outcome.counts.to_anomalies(), vec![], "seed {seed}");
        let (collector, partitions) = outcome.sink;
        partitions.check(outcome.begin, outcome.end);
        goroutines += partitions.goroutines;
        check_lives(&collector, outcome.begin, outcome.end);
    }
    assert!(goroutines > 500, "{goroutines}");
}

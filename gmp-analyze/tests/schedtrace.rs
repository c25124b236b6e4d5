//! `SCHED` lines: rebuilt queues always hold exactly the runnable goroutines, lines are Go's, captured
//! text of every shape is read.

mod common;

use common::pipeline::Pipeline;
use common::{Script, golden, p};
use gmp_analyze::analysis::schedtrace::{Captured, Moment, Queues, Request, Sampler, Summary};
use gmp_analyze::analysis::window::Window;
use gmp_analyze::input;
use gmp_analyze::machine::{GoroutineState as State, Machine};
use gmp_analyze::render::schedtrace::{self as render, Form, MomentWriter};
use gmp_analyze::render::{csv, text::Layout};
use gmp_trace::event::{Found, StealFrom};
use gmp_trace::tables::{Tables, Text};
use gmp_trace::time::Nanos;
use gmp_trace::{Body, Event};
use std::path::{Path, PathBuf};

fn request(every: i64) -> Request {
    Request {
        every: Nanos(every),
        window: Window::WHOLE,
        detail: false,
        of_go: false,
    }
}

fn moments(events: &[Event], request: Request) -> Vec<Moment> {
    let mut moments = Vec::new();
    let mut sampler = Sampler::new(request);
    for event in events {
        sampler.event(event, &mut |moment| {
            moments.push(moment.clone());
            true
        });
    }
    sampler.finish(&mut |moment| {
        moments.push(moment.clone());
        true
    });
    assert_eq!(sampler.moments(), moments.len() as u64);
    moments
}

fn events_of(path: &Path) -> (Vec<Event>, Tables, bool) {
    let mut input = input::open(path.as_os_str(), false).expect("a trace");
    let mut events = Vec::new();
    input
        .for_each_event(|event, _| events.push(*event))
        .expect("read");
    (events, input.tables().clone(), input.is_of_go())
}

fn pipeline_2p() -> (Vec<Event>, Tables, bool) {
    let program = Pipeline {
        seed: 2,
        procs: 2,
        workers: 16,
        lines: 2_000,
        stuck: 3,
    };
    let path = file("pipeline-2p.gmpt", &program.record().0);
    events_of(&path)
}

fn file(name: &str, bytes: &[u8]) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("schedtrace");
    std::fs::create_dir_all(&directory).expect("a directory for tests");
    let path = directory.join(name);
    std::fs::write(&path, bytes).expect("written");
    path
}

/// After every event of every trace the queues hold as many goroutines as are runnable.
#[test]
fn queues_hold_the_runnable_goroutines() {
    let (mut traces, mut held) = (0, 0);
    for (name, path) in golden::traces() {
        let (events, _, of_go) = events_of(&path);
        let mut machine = Machine::new(Queues::new(of_go));
        for event in &events {
            machine.event(event);
            let runnable = u64::from(machine.levels().goroutines(State::Runnable));
            assert_eq!(machine.sink().total(), runnable, "{name} after {event:?}");
            held += runnable;
        }
        traces += 1;
    }
    assert!(traces > 20 && held > 10_000, "{traces} {held}");
}

/// The queues of two Ps, step by step.
#[test]
fn goroutines_move_from_queue_to_queue() {
    let mut script = Script::new(2);
    let mut at = 0;
    // (global, ring of P 0, ring of P 1, all together) after each step.
    let mut expected = Vec::new();
    let mut step = |script: &mut Script, after: [u64; 4]| {
        at += 10;
        script.at(at);
        expected.push(after);
    };
    script.at(0).create(1, "main", 1).start(1, Found::Local);
    // The first goes to runnext, each further one pushes it into the ring.
    step(&mut script, [0, 0, 0, 1]);
    script.create(2, "w", 2);
    step(&mut script, [0, 3, 0, 4]);
    script.create(3, "w", 2).create(4, "w", 2).create(5, "w", 2);
    // P 1 steals two of three: one is run, one is in its ring.
    step(&mut script, [0, 1, 1, 3]);
    script.on(1).proc_start().event(Body::Steal {
        victim: p(0),
        n: 2,
        what: StealFrom::Ring,
    });
    script.start(3, Found::Stolen);
    // runnext of P 0 is stolen, too.
    step(&mut script, [0, 1, 1, 2]);
    script.park(Text::SLEEP, 0, 1).event(Body::Steal {
        victim: p(0),
        n: 1,
        what: StealFrom::Runnext,
    });
    script.start(5, Found::StolenRunnext);
    // A goroutine that yields goes to the ring; one that is preempted to the global queue.
    step(&mut script, [0, 1, 1, 2]);
    script.yields().start(2, Found::Local);
    step(&mut script, [1, 1, 1, 3]);
    script.event(Body::GoPreempted {
        how: gmp_trace::event::Preemption::Cooperative,
        stack: None,
    });
    // Batches and overflows.
    step(&mut script, [0, 1, 2, 3]);
    script.event(Body::GlobalBatch { n: 1 });
    step(&mut script, [2, 1, 0, 3]);
    script.event(Body::RunqOverflow { n: 2 });
    // From outside: to the global queue.
    step(&mut script, [3, 1, 0, 4]);
    script.without_p(
        None,
        Body::GoReady {
            goroutine: common::g(3),
            by: None,
            stack: None,
        },
    );
    step(&mut script, [2, 1, 0, 3]);
    script.start(3, Found::Global);
    step(&mut script, [2, 1, 0, 3]);
    script.bare(Body::Loss { events: 0 });
    let moments = moments(&script.events, request(10_000));
    assert_eq!(moments.len(), expected.len() + 1);
    for (number, (moment, after)) in moments[1..].iter().zip(&expected).enumerate() {
        let rings: Vec<u64> = moment.procs.iter().map(|proc| proc.queue).collect();
        let is = [moment.global_queue, rings[0], rings[1], moment.queued];
        assert_eq!(is, *after, "step {number}");
    }
    let last = moments.last().expect("some");
    let ticks: Vec<u64> = last.procs.iter().map(|proc| proc.sched_ticks).collect();
    assert_eq!(ticks, [1, 4], "every start but those from runnext");
}

/// Go tells nothing of steals: half of the ring goes along.
#[test]
fn steals_of_go_are_inferred() {
    let mut script = Script::new(2);
    script.at(0).create(1, "main", 1).start(1, Found::Local);
    for id in 2..=10 {
        script.create(id, "w", 2);
    }
    // Eight in the ring, one in runnext.
    script.on(1).at(15).proc_start().start(2, Found::Local);
    for event in &mut script.events {
        if let Body::GoStart { found } = &mut event.body {
            *found = None;
        }
    }
    script
        .on(0)
        .at(25)
        .yields()
        .at(35)
        .bare(Body::Loss { events: 0 });
    let of_go = true;
    let moments = moments(
        &script.events,
        Request {
            of_go,
            ..request(10_000)
        },
    );
    let queues = |moment: &Moment| -> Vec<u64> {
        let rings = moment.procs.iter().map(|proc| proc.queue);
        std::iter::once(moment.global_queue).chain(rings).collect()
    };
    assert_eq!(queues(&moments[1]), [0, 8, 0]);
    assert_eq!(
        queues(&moments[2]),
        [0, 4, 3],
        "four went along, one of them runs"
    );
    assert_eq!(
        queues(&moments[3]),
        [1, 4, 3],
        "a yield goes to the global queue"
    );
    assert_eq!((moments[3].spinning, moments[3].idle_threads), (None, None));
}

#[test]
fn a_full_ring_of_go_gives_half_away() {
    let mut script = Script::new(1);
    script.at(0).create(1, "main", 1).start(1, Found::Local);
    for id in 2..=260 {
        script.create(id, "w", 2);
    }
    script.at(20).bare(Body::Loss { events: 0 });
    let of_go = true;
    let moments = moments(
        &script.events,
        Request {
            of_go,
            ..request(10_000)
        },
    );
    let last = moments.last().expect("some");
    assert_eq!((last.global_queue, last.procs[0].queue), (129, 129));
    assert_eq!(last.queued, 259, "one is in runnext");
}

fn written(form: Form, moments: &[Moment], tables: &Tables) -> String {
    let mut out = Vec::new();
    let mut writer = MomentWriter::new(&mut out, form, "pipeline-2p.gmpt".to_owned());
    assert!(moments.iter().all(|moment| writer.moment(moment, tables)));
    writer.finish().expect("a vector");
    String::from_utf8(out).expect("UTF-8")
}

fn summary_text(summary: &Summary, note: &str) -> String {
    let mut out = Vec::new();
    let layout = Layout {
        width: 100,
        top: 10,
    };
    render::text(&mut out, &render::summary(summary, note.to_owned()), layout).expect("a vector");
    let plain = anstream::adapter::strip_bytes(&out).into_vec();
    String::from_utf8(plain).expect("UTF-8")
}

#[test]
fn lines_are_as_expected() {
    let (events, tables, _) = pipeline_2p();
    let every = request(2_000_000);
    let found = moments(&events, every);
    let mut detailed = moments(
        &events,
        Request {
            detail: true,
            ..every
        },
    );
    detailed.truncate(3);
    let mut summary = Summary::default();
    assert!(found.iter().all(|moment| summary.moment(moment)));
    let mut csv_out = Vec::new();
    csv::table(&mut csv_out, &render::summary(&summary, String::new())).expect("a vector");
    let mut json_out = Vec::new();
    let table = render::summary(&summary, String::new());
    render::json(&mut json_out, "pipeline-2p.gmpt", &table).expect("a vector");
    let json = written(Form::Json, &found, &tables);
    let value: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(value["moments"].as_array().map(Vec::len), Some(found.len()));
    let none: serde_json::Value =
        serde_json::from_str(&written(Form::Json, &[], &tables)).expect("JSON without moments");
    assert_eq!(none["moments"].as_array().map(Vec::len), Some(0));
    let outputs = [
        ("txt", written(Form::Lines, &found, &tables)),
        ("detail.txt", written(Form::Lines, &detailed, &tables)),
        ("json", json),
        ("csv", written(Form::Csv, &found, &tables)),
        ("summary.txt", summary_text(&summary, "every 2ms")),
        ("summary.csv", String::from_utf8(csv_out).expect("UTF-8")),
        ("summary.json", String::from_utf8(json_out).expect("UTF-8")),
    ];
    let mut differences = String::new();
    for (name, text) in &outputs {
        differences += &golden::difference(&format!("pipeline-2p.schedtrace.{name}"), text);
    }
    assert!(differences.is_empty(), "\n{differences}");
}

/// What is written is read back, figure by figure.
#[test]
fn rebuilt_lines_are_read_back() {
    let (events, tables, _) = pipeline_2p();
    for detail in [false, true] {
        let found = moments(
            &events,
            Request {
                detail,
                ..request(5_000_000)
            },
        );
        let text = written(Form::Lines, &found, &tables);
        let mut captured = Captured::default();
        text.lines().for_each(|line| captured.line(line));
        let mut summary = Summary::default();
        found.iter().for_each(|moment| {
            summary.moment(moment);
        });
        assert_eq!((captured.garbled, captured.restarts), (0, 0));
        assert_eq!(captured.sched_lines, found.len() as u64);
        let others = captured.lines - captured.sched_lines - captured.detail_lines;
        assert_eq!(others, 0);
        let (read, known) = (captured.summary.fields(), summary.fields());
        let mut compared = 0;
        for field in &known {
            // A detailed line has the queues P by P only.
            if let Some(back) = read.iter().find(|back| back.name == field.name) {
                assert_eq!(back, field);
                compared += 1;
            }
        }
        assert!(compared >= known.len() - usize::from(detail));
    }
}

/// Time slices are the starts that did not come from runnext: counted here by the events alone.
#[test]
fn time_slices_are_starts() {
    let mut checked = 0;
    for (name, path) in golden::traces() {
        let (events, _, of_go) = events_of(&path);
        if of_go {
            continue;
        }
        let starts = events.iter().filter(|event| match event.body {
            Body::GoStart { found } => found != Some(Found::Runnext) && event.p.is_some(),
            _ => false,
        });
        let starts = starts.count() as u64;
        let found = moments(&events, request(i64::MAX / 4));
        let mut ticks = 0;
        let mut sampler = Sampler::new(request(1_000));
        let mut last = None;
        let mut keep = |moment: &Moment| {
            last = Some(moment.clone());
            true
        };
        events
            .iter()
            .for_each(|event| sampler.event(event, &mut keep));
        sampler.finish(&mut keep);
        if let Some(last) = last {
            ticks = last.procs.iter().map(|proc| proc.sched_ticks).sum();
        }
        assert_eq!(found.len(), 1, "{name}: the begin alone");
        // The last moment is up to a microsecond before the end.
        assert!(
            ticks <= starts && starts - ticks <= 8,
            "{name}: {ticks} of {starts}"
        );
        checked += 1;
    }
    assert!(checked >= 5);
}

/// Ps that are first used late were there before.
#[test]
fn every_line_has_every_p() {
    let program = Pipeline {
        seed: 3,
        procs: 8,
        workers: 64,
        lines: 4_000,
        stuck: 12,
    };
    let path = file("pipeline-8p.gmpt", &program.record().0);
    let (events, _, _) = events_of(&path);
    let found = moments(&events, request(1_000_000));
    assert!(found.len() > 10);
    for moment in &found {
        assert_eq!(moment.procs.len(), 8, "at {:?}", moment.time);
    }
}

/// The first generation's Ps are filled in where they were not known yet, not where they are gone.
#[test]
fn a_removed_p_does_not_come_back() {
    let mut script = Script::new(2);
    script.at(0).create(1, "main", 1).start(1, Found::Local);
    let fewer = Body::ProcsChange {
        procs: 1,
        stack: None,
    };
    script.at(25).event(fewer);
    script.at(50).park(Text::SLEEP, 0, 1);
    let procs: Vec<(i64, usize)> = moments(&script.events, request(10_000))
        .iter()
        .map(|moment| (moment.time.0 / 1_000, moment.procs.len()))
        .collect();
    assert_eq!(procs, [(0, 2), (10, 2), (20, 2), (30, 1), (40, 1), (50, 1)]);
}

#[test]
fn a_range_shows_the_states_that_began_before_it() {
    let (events, _, _) = pipeline_2p();
    let all = moments(&events, request(1_000_000));
    let window = Window {
        from: Nanos(3_000_000),
        to: Nanos(6_000_000),
    };
    let part = moments(
        &events,
        Request {
            window,
            ..request(1_000_000)
        },
    );
    assert_eq!(part, all[3..6]);
    let outside = Window {
        from: Nanos(i64::MAX / 2),
        to: Nanos(i64::MAX),
    };
    assert_eq!(
        moments(
            &events,
            Request {
                window: outside,
                ..request(1)
            }
        ),
        []
    );
}

/// A damaged time does not make lines without end.
#[test]
fn moments_end() {
    let mut script = Script::new(1);
    script.at(0).create(1, "main", 1).start(1, Found::Local);
    script.at(i64::MAX / 4_000).exit();
    let mut count = 0u64;
    let mut sampler = Sampler::new(request(1));
    let mut each = |_: &Moment| {
        count += 1;
        true
    };
    script
        .events
        .iter()
        .for_each(|event| sampler.event(event, &mut each));
    sampler.finish(&mut each);
    assert_eq!(count, gmp_analyze::analysis::schedtrace::MOST_MOMENTS);
}

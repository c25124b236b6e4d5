//! Hand-made event sequences, random ones, and a sink that checks partitions.
#![allow(dead_code, unreachable_pub)] // each test program uses a part of it

pub mod expected;
pub mod golden;
pub mod pipeline;

use gmp_analyze::analysis::collect::Collector;
use gmp_analyze::analysis::report::Report;
use gmp_analyze::diag::Severity;
use gmp_analyze::input::TraceFacts;
use gmp_analyze::machine::{
    GoroutineBirth, GoroutineDeath, GoroutineSpan, GoroutineState, Machine, Outcome, ProcSpan,
    ProcState, Sink, ThreadSpan, Wake,
};
use gmp_analyze::{input, session};
use gmp_trace::event::{ExitHow, Found, GState, PState, Waker};
use gmp_trace::id::{GId, MId, ObjectId, PId};
use gmp_trace::tables::{Site, SiteRef, Tables, Text};
use gmp_trace::time::Nanos;
use gmp_trace::{Body, Event};
use std::collections::HashMap;
use std::path::Path;

pub fn g(n: u64) -> GId {
    GId::new(n).expect("a number that ids have")
}

pub fn p(n: u32) -> PId {
    PId::new(n).expect("a number that ids have")
}

pub fn m(n: u64) -> MId {
    MId::new(n).expect("a number that ids have")
}

/// Writes events: the time and the P stay until they are set anew; thread N holds P N.
pub struct Script {
    pub events: Vec<Event>,
    pub tables: Tables,
    now: i64,
    proc: u32,
    running: HashMap<u32, GId>,
}

impl Script {
    /// A script that begins at time 0 with `procs` Ps: the first in the scheduler, others idle.
    pub fn new(procs: u32) -> Script {
        let mut script = Script {
            events: Vec::new(),
            tables: Tables::new(),
            now: 0,
            proc: 0,
            running: HashMap::new(),
        };
        for number in 0..procs {
            let state = if number == 0 {
                PState::Running
            } else {
                PState::Idle
            };
            let on_m = (number == 0).then(|| m(0));
            script.bare(Body::ProcStatus {
                proc: p(number),
                state,
                on_m,
            });
        }
        script
    }

    /// From now on at `us` microseconds.
    pub fn at(&mut self, us: i64) -> &mut Script {
        self.now = us * 1000;
        self
    }

    /// From now on at `ns` nanoseconds.
    pub fn at_ns(&mut self, ns: i64) -> &mut Script {
        self.now = ns;
        self
    }

    /// From now on on P `number`.
    pub fn on(&mut self, number: u32) -> &mut Script {
        self.proc = number;
        self
    }

    fn push(&mut self, m: Option<MId>, p: Option<PId>, g: Option<GId>, body: Body) -> &mut Script {
        let order = self.events.len() as u64;
        self.events.push(Event {
            time: Nanos(self.now),
            order,
            m,
            p,
            g,
            body,
        });
        self
    }

    /// An event in the present context.
    pub fn event(&mut self, body: Body) -> &mut Script {
        let running = self.running.get(&self.proc).copied();
        self.push(Some(m(self.proc.into())), Some(p(self.proc)), running, body)
    }

    /// An event without context.
    pub fn bare(&mut self, body: Body) -> &mut Script {
        self.push(None, None, None, body)
    }

    /// An event of the present thread without a P.
    pub fn without_p(&mut self, goroutine: Option<u64>, body: Body) -> &mut Script {
        self.push(Some(m(self.proc.into())), None, goroutine.map(g), body)
    }

    /// An event of thread `number`, which holds P 0 and runs `goroutine`.
    pub fn other_thread(&mut self, number: u64, goroutine: Option<u64>, body: Body) -> &mut Script {
        self.push(Some(m(number)), Some(p(0)), goroutine.map(g), body)
    }

    /// An event of thread `number`, which holds no P.
    pub fn other_thread_without_p(&mut self, number: u64, body: Body) -> &mut Script {
        self.push(Some(m(number)), None, None, body)
    }

    pub fn site(&mut self, function: &str, file: &str, line: u32) -> SiteRef {
        let function = self.tables.intern_text(function);
        let file = self.tables.intern_text(file);
        self.tables.intern_site(Site {
            function,
            file,
            line,
            column: 5,
        })
    }

    pub fn create(&mut self, child: u64, function: &str, line: u32) -> &mut Script {
        let site = Some(self.site(function, "src/main.rs", line));
        let body = Body::GoCreate {
            child: g(child),
            site,
            stack: None,
            start_stack: None,
            runnable: true,
        };
        self.event(body)
    }

    pub fn start(&mut self, goroutine: u64, found: Found) -> &mut Script {
        self.running.insert(self.proc, g(goroutine));
        self.event(Body::GoStart { found: Some(found) })
    }

    fn stop(&mut self, body: Body) -> &mut Script {
        self.event(body);
        self.running.remove(&self.proc);
        self
    }

    pub fn park(&mut self, reason: Text, object: u64, line: u32) -> &mut Script {
        let site = Some(self.site("wait_here", "src/wait.rs", line));
        self.stop(Body::GoPark {
            reason,
            object: ObjectId::new(object),
            site,
            stack: None,
        })
    }

    pub fn yields(&mut self) -> &mut Script {
        self.stop(Body::GoYield { stack: None })
    }

    pub fn exit(&mut self) -> &mut Script {
        self.stop(Body::GoExit {
            how: Some(ExitHow::Returned),
        })
    }

    pub fn ready(&mut self, goroutine: u64) -> &mut Script {
        let by = Some(Waker::Goroutine);
        self.event(Body::GoReady {
            goroutine: g(goroutine),
            by,
            stack: None,
        })
    }

    pub fn proc_start(&mut self) -> &mut Script {
        self.event(Body::ProcStart)
    }

    pub fn proc_stop(&mut self) -> &mut Script {
        self.event(Body::ProcStop)
    }

    pub fn status(&mut self, goroutine: u64, state: GState, on_m: Option<u64>) -> &mut Script {
        self.bare(Body::GoStatus {
            goroutine: g(goroutine),
            state,
            on_m: on_m.map(m),
            reason: (state == GState::Waiting).then_some(Text::CHAN_RECEIVE),
            object: None,
            site: None,
            created_at: None,
            creator: None,
            label: None,
            stack: None,
        })
    }

    /// The report on what was written so far.
    pub fn report(&self) -> Report {
        self.report_on(TraceFacts::default())
    }

    pub fn report_on(&self, facts: TraceFacts) -> Report {
        report_of(&self.events, &self.tables, facts)
    }
}

/// The report on `events`, checked.
pub fn report_of(events: &[Event], tables: &Tables, facts: TraceFacts) -> Report {
    let mut machine = Machine::new((Collector::new(true), Partitions::default()));
    for event in events {
        machine.event(event);
    }
    Report::new(checked(machine.finish()), facts, tables, Vec::new())
}

/// The report on the trace at `path`, checked.
pub fn report_at(path: &Path) -> Report {
    /// Wants to know nothing.
    struct Nothing;
    impl Sink for Nothing {}
    report_with(path, Nothing).0
}

/// The same, and `sink` after it was told of the trace.
pub fn report_with<S: Sink>(path: &Path, sink: S) -> (Report, S) {
    let mut input = input::open(path.as_os_str(), false).expect("a trace");
    let sinks = ((Collector::new(true), sink), Partitions::default());
    let outcome = checked(session::run(&mut input, sinks).expect("read to its end"));
    let mut told = None;
    let outcome = outcome.map(|(collector, sink)| {
        told = Some(sink);
        collector
    });
    let report = Report::new(outcome, input.facts(), input.tables(), input.anomalies());
    (report, told.expect("what was put in"))
}

/// Nothing is wrong with a trace that was just recorded. The clocks of two processors may disagree.
pub fn assert_nothing_wrong(report: &Report) {
    let wrong: Vec<_> = report
        .anomalies
        .iter()
        .filter(|anomaly| anomaly.count > 0 && anomaly.severity != Severity::Info)
        .collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}

/// What was collected, after the states of every goroutine and P were added up.
pub fn checked<S>(outcome: Outcome<(S, Partitions)>) -> Outcome<S> {
    outcome.sink.1.check(outcome.begin, outcome.end);
    outcome.map(|(sink, _)| sink)
}

/// Checks that spans partition lives, by itself: it does not use the sums of the machine.
#[derive(Default)]
pub struct Partitions {
    /// By slot: goroutine, birth, end of the last span.
    living: HashMap<usize, (GId, Nanos, Nanos)>,
    pub goroutines: u64,
    procs: HashMap<PId, (Nanos, Nanos)>,
    threads: HashMap<MId, (Nanos, Nanos)>,
    pub wakes: u64,
    pub running: i128,
    pub proc_running: i128,
    /// By P: how long goroutines ran on it, and how long it ran.
    pub running_on: HashMap<PId, [i128; 2]>,
}

impl Sink for Partitions {
    fn goroutine_begin(&mut self, birth: &GoroutineBirth) {
        let new = (birth.goroutine, birth.time, birth.time);
        assert!(
            self.living.insert(birth.slot, new).is_none(),
            "slot in use: {birth:?}"
        );
    }

    fn goroutine_span(&mut self, span: &GoroutineSpan) {
        let living = self
            .living
            .get_mut(&span.slot)
            .expect("a span of a living goroutine");
        assert_eq!(living.0, span.goroutine);
        assert_eq!(living.2, span.begin, "a gap before {span:?}");
        assert!(span.begin <= span.end, "{span:?}");
        living.2 = span.end;
        if span.state == GoroutineState::Running {
            let time = i128::from(span.end.0 - span.begin.0);
            self.running += time;
            if let Some(proc) = span.proc {
                self.running_on.entry(proc).or_default()[0] += time;
            }
        }
    }

    fn goroutine_end(&mut self, death: &GoroutineDeath) {
        let (id, born, last) = self.living.remove(&death.slot).expect("lived");
        assert_eq!((id, born, last), (death.goroutine, death.born, death.time));
        self.goroutines += 1;
    }

    fn wake(&mut self, wake: &Wake) {
        assert!(wake.ready <= wake.start, "{wake:?}");
        self.wakes += 1;
    }

    fn proc_span(&mut self, span: &ProcSpan) {
        let (_, last) = self
            .procs
            .entry(span.proc)
            .or_insert((span.begin, span.begin));
        assert_eq!(*last, span.begin, "a gap before {span:?}");
        assert!(span.begin < span.end);
        *last = span.end;
        if span.state == ProcState::Running {
            let time = i128::from(span.end.0 - span.begin.0);
            self.proc_running += time;
            self.running_on.entry(span.proc).or_default()[1] += time;
        }
    }

    fn thread_span(&mut self, span: &ThreadSpan) {
        let (_, last) = self
            .threads
            .entry(span.thread)
            .or_insert((span.begin, span.begin));
        assert!(*last <= span.begin, "an overlap before {span:?}");
        assert!(span.begin < span.end);
        *last = span.end;
    }
}

impl Partitions {
    /// After the end: nobody lives, and every P's spans cover the trace.
    pub fn check(&self, begin: Nanos, end: Nanos) {
        assert!(self.living.is_empty(), "{:?}", self.living);
        if begin < end {
            for (proc, &span) in &self.procs {
                assert_eq!(span, (begin, end), "{proc:?}");
            }
        }
    }
}

/// Random numbers, the same for the same seed.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, n: u64) -> u64 {
        // Marsaglia's xorshift64.
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }

    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

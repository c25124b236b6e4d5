//! A program that never was, simulated and recorded: a reader sends lines to workers over a channel,
//! workers send counts to an aggregator, a reporter sleeps between reports. Some goroutines are
//! left blocked for ever. The recorder's own bytes come out, so that everything from the file to the
//! page is tested.

use super::{Random, g, m, p};
use gmp_trace::event::{ExitHow, Found, PState, StealFrom, Waker};
use gmp_trace::tables::Text;
use gmp_trace::write::{ClockPair, Context, Encoder, HeaderInfo, Recorder, Seq, Wait};
use std::collections::{BTreeMap, VecDeque};

/// What the simulated program is.
pub struct Pipeline {
    pub seed: u64,
    pub procs: u32,
    pub workers: u64,
    /// Lines that the reader sends.
    pub lines: u64,
    /// Goroutines that send to a channel that nobody receives from.
    pub stuck: u64,
}

/// What the simulation counted by itself.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Truth {
    pub made: u64,
    pub ended: u64,
    pub starts: u64,
    pub parks: BTreeMap<&'static str, u64>,
    pub stolen: u64,
    pub events: u64,
}

struct Proc {
    now: u64,
    queue: VecDeque<(u64, u64)>,
    running: Option<u64>,
    idle: bool,
    seq: u32,
}

struct Simulation {
    recorder: Recorder<Vec<u8>>,
    random: Random,
    procs: Vec<Proc>,
    /// By goroutine: its sequence number, and when it became runnable.
    sequence: BTreeMap<u64, u32>,
    truth: Truth,
    sites: BTreeMap<&'static str, u32>,
    /// Goroutines that sleep: until when.
    sleepers: Vec<(u64, u64)>,
}

/// Clock units: nanoseconds.
const SECOND: u64 = 1_000_000_000;
const WORKER: u64 = 10;
const READER: u64 = 2;
const AGGREGATOR: u64 = 3;
const REPORTER: u64 = 4;
const MAIN: u64 = 1;

impl Pipeline {
    /// The trace's bytes, and what must be in it.
    pub fn record(&self) -> (Vec<u8>, Truth) {
        let header = HeaderInfo::new(SECOND);
        let recorder = Recorder::new(Vec::new(), &header, 16 << 10).expect("a vector");
        let mut simulation = Simulation {
            recorder,
            random: Random(self.seed),
            procs: Vec::new(),
            sequence: BTreeMap::new(),
            truth: Truth::default(),
            sites: BTreeMap::new(),
            sleepers: Vec::new(),
        };
        simulation.begin(self);
        let mut line = 0;
        let mut waiting: VecDeque<u64> = (0..self.workers).map(|n| WORKER + n).collect();
        let mut parked_workers = false;
        while line < self.lines {
            let place = simulation.earliest();
            simulation.wake_sleepers(place);
            let Some(id) = simulation.next_goroutine(place) else {
                continue;
            };
            match id {
                READER => {
                    simulation.works(place, 800, 2_500);
                    line += 1;
                    if let Some(worker) = waiting.pop_front().filter(|_| parked_workers) {
                        simulation.ready(place, worker);
                    }
                    if line.is_multiple_of(64) || waiting.is_empty() {
                        simulation.parks(place, "sleep", 0, 30_000);
                    } else {
                        simulation.yields(place);
                    }
                }
                REPORTER => {
                    simulation.works(place, 20_000, 60_000);
                    simulation.parks(place, "sleep", 0, 2_000_000);
                }
                MAIN => {
                    simulation.works(place, 500, 1_000);
                    simulation.parks(place, "join", READER, 0);
                }
                AGGREGATOR => {
                    simulation.works(place, 400, 1_500);
                    simulation.parks(place, "receive", 77, 0);
                    simulation.ready_later(AGGREGATOR, place, 5_000);
                }
                worker if worker < 1000 => {
                    parked_workers = true;
                    // The skew: one worker in eight has much more to do.
                    let heavy = if worker % 8 == 0 { 12 } else { 1 };
                    simulation.works(place, 3_000 * heavy, 9_000 * heavy);
                    simulation.parks(place, "receive", 55, 0);
                    waiting.push_back(worker);
                }
                _ => {
                    simulation.works(place, 100, 200);
                    simulation.parks(place, "send", 99, 0);
                }
            }
        }
        simulation.finish()
    }
}

impl Simulation {
    fn begin(&mut self, program: &Pipeline) {
        let clocks = ClockPair {
            ticks: 0,
            mono: 5,
            wall: 1_790_000_000 * SECOND,
        };
        self.recorder.begin_generation(clocks).expect("a vector");
        let lines = [
            (
                "main",
                "log_stats::main::{{closure}}",
                "examples/log_stats/src/main.rs",
                31,
            ),
            (
                "reader",
                "log_stats::input::read_lines",
                "examples/log_stats/src/main.rs",
                38,
            ),
            (
                "worker",
                "log_stats::parse::worker",
                "examples/log_stats/src/main.rs",
                44,
            ),
            (
                "aggregator",
                "log_stats::sum::aggregate",
                "examples/log_stats/src/main.rs",
                50,
            ),
            (
                "reporter",
                "log_stats::report::every_second",
                "examples/log_stats/src/main.rs",
                55,
            ),
            (
                "stuck",
                "log_stats::audit::send_copy",
                "examples/log_stats/src/audit.rs",
                19,
            ),
            (
                "receive",
                "log_stats::parse::worker",
                "examples/log_stats/src/parse.rs",
                12,
            ),
            (
                "send",
                "log_stats::audit::send_copy",
                "examples/log_stats/src/audit.rs",
                27,
            ),
            (
                "sleep",
                "log_stats::report::every_second",
                "examples/log_stats/src/report.rs",
                9,
            ),
            (
                "join",
                "log_stats::main::{{closure}}",
                "examples/log_stats/src/main.rs",
                61,
            ),
        ];
        for (name, function, file, line) in lines {
            let site = self.recorder.site(function, file, line, 9);
            self.sites.insert(name, site);
        }
        for number in 0..program.procs {
            let idle = number > 0;
            let (queue, running) = (VecDeque::new(), None);
            self.procs.push(Proc {
                now: 100,
                queue,
                running,
                idle,
                seq: 0,
            });
            let (state, on_m) = if idle {
                (PState::Idle, None)
            } else {
                (PState::Running, Some(0))
            };
            self.recorder
                .control(100, |e, c| e.proc_status(c, 100, number, state, on_m))
                .expect("a vector");
            self.truth.events += 1;
        }
        self.create(0, MAIN, "main");
        self.next_goroutine(0);
        for (id, site) in [
            (READER, "reader"),
            (AGGREGATOR, "aggregator"),
            (REPORTER, "reporter"),
        ] {
            self.create(0, id, site);
        }
        for number in 0..program.workers {
            self.create(0, WORKER + number, "worker");
        }
        for number in 0..program.stuck {
            self.create(0, 1000 + number, "stuck");
        }
        self.yields(0);
    }

    /// Records on P `place`, a moment later.
    fn record(&mut self, place: usize, call: impl FnOnce(&mut Encoder, &mut [u8], u64)) {
        let proc = &mut self.procs[place];
        let now = proc.now;
        let context = Context {
            p: (!proc.idle).then(|| p(place as u32)),
            g: proc.running.map(g),
        };
        self.recorder
            .record(m(place as u64), now, context, |e, c| call(e, c, now))
            .expect("a vector");
        self.truth.events += 1;
    }

    fn sequence(&mut self, id: u64) -> Seq {
        let sequence = self.sequence.entry(id).or_insert(0);
        *sequence += 1;
        Seq::Remote(*sequence)
    }

    fn create(&mut self, place: usize, id: u64, name: &'static str) {
        let site = self.sites[name];
        self.procs[place].now += 90;
        self.record(place, |e, c, now| e.create(c, now, id, site));
        self.sequence.insert(id, 0);
        let now = self.procs[place].now;
        self.procs[place].queue.push_back((id, now));
        self.truth.made += 1;
    }

    /// The P whose clock is behind the others'.
    fn earliest(&self) -> usize {
        let places = 0..self.procs.len();
        places
            .min_by_key(|&place| self.procs[place].now)
            .expect("a P")
    }

    fn wake_sleepers(&mut self, place: usize) {
        let now = self.procs[place].now;
        let due: Vec<u64> = self
            .sleepers
            .iter()
            .filter(|(until, _)| *until <= now)
            .map(|(_, id)| *id)
            .collect();
        self.sleepers.retain(|(until, _)| *until > now);
        if due.is_empty() {
            return;
        }
        self.leave_idle(place);
        for id in due {
            let seq = self.sequence(id);
            self.record(place, |e, c, now| e.ready(c, now, id, Waker::Timer, seq));
            let now = self.procs[place].now;
            self.procs[place].queue.push_back((id, now));
        }
    }

    fn leave_idle(&mut self, place: usize) {
        if self.procs[place].idle {
            self.procs[place].seq += 1;
            let seq = self.procs[place].seq;
            self.record(place, |e, c, now| e.proc_start(c, now, place as u32, seq));
            self.procs[place].idle = false;
        }
    }

    /// What P `place` runs next: its own, else stolen; idle where there is nothing.
    fn next_goroutine(&mut self, place: usize) -> Option<u64> {
        self.procs[place].now += 60;
        let now = self.procs[place].now;
        let mut found = Found::Local;
        if self.procs[place]
            .queue
            .front()
            .is_none_or(|(_, since)| *since > now)
        {
            found = self.steal(place)?;
        }
        self.leave_idle(place);
        let (id, _) = self.procs[place].queue.pop_front().expect("looked");
        let seq = self.sequence(id);
        self.record(place, |e, c, now| e.start(c, now, id, found, seq));
        self.procs[place].running = Some(id);
        self.truth.starts += 1;
        Some(id)
    }

    fn steal(&mut self, place: usize) -> Option<Found> {
        let now = self.procs[place].now;
        let can = |victim: &usize| {
            let queue = &self.procs[*victim].queue;
            *victim != place && queue.iter().filter(|(_, since)| *since <= now).count() > 1
        };
        let Some(victim) = (0..self.procs.len()).find(can) else {
            if !self.procs[place].idle {
                self.record(place, |e, c, now| e.steal_failed(c, now, 4));
                self.record(place, |e, c, now| e.proc_stop(c, now));
                self.procs[place].idle = true;
            }
            self.procs[place].now += 2_000 + self.random.below(3_000);
            return None;
        };
        self.leave_idle(place);
        self.procs[place].now += 250;
        let (id, since) = self.procs[victim].queue.pop_front().expect("looked");
        let from = StealFrom::Ring;
        self.record(place, |e, c, now| e.steal(c, now, victim as u32, 1, from));
        self.procs[place].queue.push_front((id, since));
        self.truth.stolen += 1;
        Some(Found::Stolen)
    }

    fn works(&mut self, place: usize, at_least: u64, at_most: u64) {
        self.procs[place].now += at_least + self.random.below(at_most - at_least);
    }

    fn ready(&mut self, place: usize, id: u64) {
        let seq = self.sequence(id);
        self.record(place, |e, c, now| {
            e.ready(c, now, id, Waker::Goroutine, seq)
        });
        let now = self.procs[place].now;
        self.procs[place].queue.push_back((id, now));
    }

    /// Somebody else wakes `id` after `delay`.
    fn ready_later(&mut self, id: u64, place: usize, delay: u64) {
        self.sleepers.push((self.procs[place].now + delay, id));
    }

    fn yields(&mut self, place: usize) {
        self.record(place, |e, c, now| e.yields(c, now));
        let id = self.procs[place].running.take().expect("runs");
        let now = self.procs[place].now;
        self.procs[place].queue.push_back((id, now));
    }

    /// Parks for `name`; where `delay` is not zero a timer wakes it after that.
    fn parks(&mut self, place: usize, name: &'static str, object: u64, delay: u64) {
        let reason = match name {
            "sleep" => Text::SLEEP,
            "join" => Text::JOIN,
            "send" => Text::CHAN_SEND,
            _ => Text::CHAN_RECEIVE,
        };
        let wait = Wait {
            reason: reason.0,
            site: self.sites[name],
            object,
        };
        self.record(place, |e, c, now| e.park(c, now, wait));
        let id = self.procs[place].running.take().expect("runs");
        if delay > 0 {
            self.sleepers.push((self.procs[place].now + delay, id));
        }
        *self.truth.parks.entry(name).or_default() += 1;
    }

    /// Main is woken, ends, and the trace with it.
    fn finish(mut self) -> (Vec<u8>, Truth) {
        let place = self.earliest();
        let latest = self.procs.iter().map(|proc| proc.now).max().expect("a P");
        self.procs[place].now = latest + 100;
        self.leave_idle(place);
        self.procs[place].queue.clear();
        let seq = self.sequence(MAIN);
        self.record(place, |e, c, now| {
            e.ready(c, now, MAIN, Waker::Runtime, seq)
        });
        let now = self.procs[place].now;
        self.procs[place].queue.push_back((MAIN, now));
        self.next_goroutine(place);
        self.works(place, 500, 900);
        self.record(place, |e, c, now| e.exit(c, now, ExitHow::Returned));
        self.truth.ended += 1;
        (self.recorder.finish().expect("a vector"), self.truth)
    }
}

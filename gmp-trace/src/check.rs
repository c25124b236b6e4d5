//! An independent judge of a trace: are its events possible in the order in which they come?
//!
//! It knows what a scheduler may do and nothing of how a reader orders, and shares no code with one:
//! so that each finds the other's mistakes.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use crate::error::Error;
use crate::event::{Body, Event, Found, GState, PState};
use crate::id::{GId, MId, PId};
use crate::reader::Reader;
use crate::time::Nanos;

macro_rules! rules {
    ($($rule:ident $sentence:literal;)*) => {
        /// Something that holds for every possible trace.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Rule {
            $(#[doc = $sentence] $rule,)*
        }

        impl Rule {
            /// Every rule.
            pub const ALL: &'static [Rule] = &[$(Rule::$rule),*];

            /// One sentence.
            pub const fn sentence(self) -> &'static str {
                match self { $(Rule::$rule => $sentence,)* }
            }
        }
    };
}

rules! {
    OrderHasNoGaps "Events are numbered from 0 without gaps.";
    MRunsOne "An M runs one goroutine at a time.";
    PRunsOne "A P is held by one M at a time.";
    StartNeedsRunnable "Only a runnable goroutine is started.";
    StartNeedsP "A goroutine is started with a P.";
    ReadyNeedsWaiting "Only a waiting goroutine is made ready.";
    StopNeedsRunning "Only the running goroutine of an M parks, yields, is preempted or ends.";
    DeadStaysDead "Nothing happens to a goroutine that has ended.";
    CreatedOnce "A goroutine is created once.";
    KnownGoroutine "A goroutine is created, or its status told, before anything else happens to it.";
    StatusAgrees "A status at the beginning of a generation is what the generation before left.";
    ImplicitNeedsRunning "Only a running goroutine is found blocked in the kernel.";
    SyscallPairs "A system call ends that was entered, by the goroutine that entered it.";
    IdlePStarts "Only an idle P is started.";
    HeldPStops "Only the P of an M stops, is handed off or is taken from it.";
    StolenAfterSteal "A goroutine that was stolen is started after a steal by the same M.";
    StealTakesSome "A steal takes at least one goroutine.";
    CountsAgree "The trace has as many events as it says.";
}

/// One broken rule.
#[derive(Clone, Debug, PartialEq)]
pub struct Broken {
    /// Which.
    pub rule: Rule,
    /// By which event, in the order of cause.
    pub order: u64,
    /// When.
    pub time: Nanos,
    /// Who was concerned.
    pub what: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "event {} at {:?}: {} ({})",
            self.order,
            self.time,
            self.rule.sentence(),
            self.what
        )
    }
}

/// Broken rules that are kept in full; all are counted.
const KEPT: usize = 100;

/// What was found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Events that were looked at.
    pub events: u64,
    /// The first broken rules.
    pub broken: Vec<Broken>,
    /// How often each rule was broken.
    pub counts: BTreeMap<Rule, u64>,
    /// How often time went back from one event to the next: clocks may disagree, so that is no broken
    /// rule.
    pub times_back: u64,
    /// Events that a format said were lost: rules may be broken for want of them.
    pub lost: u64,
}

impl Report {
    /// Whether no rule was broken.
    pub fn is_good(&self) -> bool {
        self.counts.is_empty()
    }
}

/// Reads `reader` to its end and judges every event.
///
/// # Errors
///
/// When the trace cannot be read.
pub fn check(reader: &mut Reader) -> Result<Report, Error> {
    let mut checker = Checker::new();
    reader.for_each_event(|event, _| checker.event(event))?;
    Ok(checker.finish(reader.info().events))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Runnable,
    Running,
    Syscall,
    Waiting,
    Dead,
}

#[derive(Clone, Copy, Debug)]
struct Goroutine {
    state: State,
    on: Option<MId>,
}

/// What an M has.
#[derive(Clone, Copy, Debug, Default)]
struct Machine {
    g: Option<GId>,
    p: Option<PId>,
    /// Whether its last search stole something that it did not start yet.
    stole: bool,
}

/// Judges events one after the other.
#[derive(Debug, Default)]
pub struct Checker {
    report: Report,
    goroutines: HashMap<GId, Goroutine>,
    machines: HashMap<MId, Machine>,
    /// Who holds each P.
    holders: HashMap<PId, Option<MId>>,
    last_time: Option<Nanos>,
}

impl Checker {
    /// A judge who has seen nothing.
    pub fn new() -> Checker {
        Checker::default()
    }

    /// Ends the judgement; `events` is how many there were said to be.
    pub fn finish(mut self, events: u64) -> Report {
        if events != self.report.events {
            let what = format!("{} were read, {events} are told of", self.report.events);
            self.broken_at(Rule::CountsAgree, self.report.events, Nanos::ZERO, what);
        }
        self.report
    }

    fn broken_at(&mut self, rule: Rule, order: u64, time: Nanos, what: String) {
        *self.report.counts.entry(rule).or_default() += 1;
        if self.report.broken.len() < KEPT {
            self.report.broken.push(Broken {
                rule,
                order,
                time,
                what,
            });
        }
    }

    fn broken(&mut self, rule: Rule, event: &Event, what: impl fmt::Debug) {
        let what = format!("{what:?} on {:?}, {:?}, {:?}", event.m, event.p, event.g);
        self.broken_at(rule, event.order, event.time, what);
    }

    /// Judges the next event.
    pub fn event(&mut self, event: &Event) {
        if event.order != self.report.events {
            self.broken(Rule::OrderHasNoGaps, event, event.order);
        }
        self.report.events += 1;
        if self.last_time.is_some_and(|last| event.time < last) {
            self.report.times_back += 1;
        }
        self.last_time = Some(event.time);
        match event.body {
            Body::GoCreate {
                child, runnable, ..
            } => self.create(event, child, runnable),
            Body::GoStart { found } => self.start(event, found),
            Body::GoPark { .. } => self.stop(event, State::Waiting),
            Body::GoYield { .. } | Body::GoPreempted { .. } => self.stop(event, State::Runnable),
            Body::GoExit { .. } => self.stop(event, State::Dead),
            Body::GoReady { goroutine, .. } => {
                self.ready(event, goroutine);
            }
            Body::GoStatus {
                goroutine,
                state,
                on_m,
                ..
            } => {
                self.status(event, goroutine, state, on_m);
            }
            Body::SyscallEnter { .. } => self.syscall(event, State::Running, State::Syscall),
            Body::SyscallExit => self.syscall(event, State::Syscall, State::Running),
            Body::SyscallExitBlocked => {
                self.exit_blocked(event);
            }
            Body::SyscallImplicit { goroutine, .. } => {
                self.implicit(event, goroutine);
            }
            Body::Steal { n: 0, victim, .. } => self.broken(Rule::StealTakesSome, event, victim),
            Body::Steal { .. } => self.machine(event).stole = true,
            Body::ProcStart => self.proc_start(event),
            Body::ProcStop | Body::ProcHandoff { .. } => self.proc_stop(event),
            Body::ProcSteal { victim, from_m, .. } => self.proc_steal(event, victim, from_m),
            Body::ProcStatus { proc, state, on_m } => self.proc_status(event, proc, state, on_m),
            Body::Loss { events } => {
                self.report.lost = self.report.lost.saturating_add(events);
            }
            _ => {}
        }
    }

    /// What the event's M has; of a format that names no Ms, what nobody has.
    fn machine(&mut self, event: &Event) -> &mut Machine {
        const NOBODY: Option<MId> = MId::new(u64::MAX - 1);
        let m = event.m.or(NOBODY);
        match m {
            Some(m) => self.machines.entry(m).or_default(),
            None => unreachable!("the second largest number is an id"),
        }
    }

    fn create(&mut self, event: &Event, child: GId, runnable: bool) {
        let state = if runnable {
            State::Runnable
        } else {
            State::Waiting
        };
        if self
            .goroutines
            .insert(child, Goroutine { state, on: None })
            .is_some()
        {
            self.broken(Rule::CreatedOnce, event, child);
        }
    }

    /// The state of `g`; broken if it has none or is dead.
    fn alive(&mut self, event: &Event, g: GId) -> Option<State> {
        let state = self.goroutines.get(&g).map(|g| g.state);
        match state {
            None => self.broken(Rule::KnownGoroutine, event, g),
            Some(State::Dead) => self.broken(Rule::DeadStaysDead, event, g),
            Some(_) => return state,
        }
        None
    }

    fn set(&mut self, g: GId, state: State, on: Option<MId>) {
        self.goroutines.insert(g, Goroutine { state, on });
    }

    fn start(&mut self, event: &Event, found: Option<Found>) {
        let Some(g) = event.g else {
            return self.broken(Rule::KnownGoroutine, event, "none");
        };
        if let Some(state) = self.alive(event, g)
            && state != State::Runnable
        {
            self.broken(Rule::StartNeedsRunnable, event, (g, state));
        }
        if event.p.is_none() {
            self.broken(Rule::StartNeedsP, event, g);
        }
        let machine = self.machine(event);
        let (running, stole) = (machine.g.replace(g), machine.stole);
        machine.stole = false;
        if let Some(other) = running {
            self.broken(Rule::MRunsOne, event, (other, g));
        }
        if matches!(found, Some(Found::Stolen | Found::StolenRunnext)) && !stole {
            self.broken(Rule::StolenAfterSteal, event, g);
        }
        self.set(g, State::Running, event.m);
    }

    fn stop(&mut self, event: &Event, to: State) {
        let Some(g) = event.g else {
            return self.broken(Rule::StopNeedsRunning, event, "none");
        };
        let known = self.goroutines.get(&g).copied();
        if self.alive(event, g).is_some()
            && known.is_some_and(|k| k.state != State::Running || k.on != event.m)
        {
            self.broken(Rule::StopNeedsRunning, event, (g, known));
        }
        self.machine(event).g = None;
        self.set(g, to, None);
    }

    fn ready(&mut self, event: &Event, g: GId) {
        if let Some(state) = self.alive(event, g)
            && state != State::Waiting
        {
            self.broken(Rule::ReadyNeedsWaiting, event, (g, state));
        }
        self.set(g, State::Runnable, None);
    }

    fn implicit(&mut self, event: &Event, g: GId) {
        if let Some(state) = self.alive(event, g)
            && state != State::Running
        {
            self.broken(Rule::ImplicitNeedsRunning, event, (g, state));
        }
        let on = self.goroutines.get(&g).and_then(|g| g.on);
        self.set(g, State::Syscall, on);
    }

    fn syscall(&mut self, event: &Event, from: State, to: State) {
        let Some(g) = event.g else {
            return self.broken(Rule::SyscallPairs, event, "none");
        };
        if let Some(state) = self.alive(event, g)
            && state != from
        {
            self.broken(Rule::SyscallPairs, event, (g, state));
        }
        self.set(g, to, if to == State::Runnable { None } else { event.m });
    }

    /// The event's goroutine is back from a call and has no P. Go's older traces do not say on which M:
    /// it is the one that the goroutine was on.
    fn exit_blocked(&mut self, event: &Event) {
        let was_on = event
            .g
            .and_then(|g| self.goroutines.get(&g))
            .and_then(|goroutine| goroutine.on);
        self.syscall(event, State::Syscall, State::Runnable);
        let machine = event.m.or(was_on).and_then(|m| self.machines.get_mut(&m));
        if let Some(machine) = machine
            && machine.g == event.g
        {
            machine.g = None;
        }
    }

    fn status(&mut self, event: &Event, g: GId, state: GState, on: Option<MId>) {
        let state = match state {
            GState::Runnable => State::Runnable,
            GState::Running => State::Running,
            GState::Syscall => State::Syscall,
            GState::Waiting => State::Waiting,
        };
        if let Some(known) = self.goroutines.get(&g).copied()
            && known.state != state
        {
            self.broken(Rule::StatusAgrees, event, (g, known.state, state));
        }
        self.set(g, state, on);
        if let (Some(m), State::Running | State::Syscall) = (on, state) {
            self.machines.entry(m).or_default().g = Some(g);
        }
    }

    fn proc_start(&mut self, event: &Event) {
        let Some(p) = event.p else {
            return self.broken(Rule::IdlePStarts, event, "none");
        };
        if let Some(Some(holder)) = self.holders.insert(p, event.m) {
            self.broken(Rule::IdlePStarts, event, (p, holder));
        }
        if let Some(other) = self.machine(event).p.replace(p) {
            self.broken(Rule::PRunsOne, event, (other, p));
        }
    }

    fn proc_stop(&mut self, event: &Event) {
        let held = self.machine(event).p.take();
        if held.is_none() || held != event.p {
            self.broken(Rule::HeldPStops, event, held);
        }
        if let Some(p) = event.p {
            self.holders.insert(p, None);
        }
    }

    fn proc_steal(&mut self, event: &Event, victim: PId, from: Option<MId>) {
        let holder = self.holders.insert(victim, None).flatten();
        if holder.is_none() || from.is_some() && from != holder {
            self.broken(Rule::HeldPStops, event, (victim, holder, from));
        }
        if let Some(machine) = holder.and_then(|m| self.machines.get_mut(&m)) {
            machine.p = None;
        }
    }

    fn proc_status(&mut self, event: &Event, p: PId, state: PState, on: Option<MId>) {
        let on = on.filter(|_| state != PState::Idle);
        let known = self.holders.insert(p, on);
        if let Some(known) = known
            && known != on
        {
            self.broken(Rule::StatusAgrees, event, (p, known, on));
        }
        if let Some(m) = on {
            let before = self.machines.entry(m).or_default().p.replace(p);
            if before.is_some_and(|other| other != p) {
                self.broken(Rule::PRunsOne, event, (before, p));
            }
        }
    }
}

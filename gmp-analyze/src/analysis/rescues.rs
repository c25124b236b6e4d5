//! What the scheduler did so that nobody holds the others up: Ps that it asked for, took and handed on.

use super::distribution::Distribution;
use gmp_trace::event::{HandoffReason, PreemptReason, RetakeReason};
use gmp_trace::id::{GId, PId};
use gmp_trace::time::Nanos;
use gmp_trace::{Body, Event};
use std::collections::BTreeMap;

/// Collects requests for Ps, and Ps that changed hands. Requests of a stop of the world are not counted: how long that
/// takes is told of the stop.
#[derive(Clone, Debug, Default)]
pub struct Rescues {
    /// Times that a goroutine was asked for its P because its time slice was over.
    pub asked_for_slice: u64,
    /// Times that one was asked because somebody had been woken whom nobody else could run.
    pub asked_urgently: u64,
    /// From the first request in a turn until the goroutine gave up its P.
    pub delays: Distribution,
    /// Ps taken from goroutines in system calls.
    pub from_calls: u64,
    /// Those of them whose call nobody had announced.
    pub from_unannounced: u64,
    /// Ps that a goroutine's thread gave away when the goroutine was frozen.
    pub by_frozen: u64,
    /// Ps given to the thread of a frozen goroutine, whose turn it was.
    pub to_frozen: u64,
    /// Ps given to the thread that a goroutine is locked to.
    pub to_locked: u64,
    /// By P: who was asked for it first in its turn, and when.
    asked: BTreeMap<PId, (GId, Nanos)>,
}

impl Rescues {
    /// One more event, of any kind but GoStart.
    pub fn event(&mut self, event: &Event) {
        match event.body {
            Body::GoPreemptRequested {
                victim,
                goroutine,
                why,
            } => {
                match why {
                    PreemptReason::Slice => self.asked_for_slice += 1,
                    PreemptReason::Urgent => self.asked_urgently += 1,
                    PreemptReason::Stop => return,
                }
                if let Some(goroutine) = goroutine {
                    self.ask(victim, goroutine, event.time);
                }
            }
            Body::GoPreempted { .. } => self.preempted(event),
            Body::ProcSteal { why, .. } => match why {
                Some(RetakeReason::Frozen) => self.by_frozen += 1,
                Some(RetakeReason::ImplicitSyscall) => {
                    self.from_calls += 1;
                    self.from_unannounced += 1;
                }
                Some(RetakeReason::Syscall) | None => self.from_calls += 1,
            },
            Body::ProcHandoff { why, .. } => match why {
                HandoffReason::Frozen => self.by_frozen += 1,
                HandoffReason::Wired => self.to_frozen += 1,
                HandoffReason::Locked => self.to_locked += 1,
                HandoffReason::Syscall => self.from_calls += 1,
            },
            _ => {}
        }
    }

    /// A goroutine begins a turn on `proc`: whoever was asked there before has left it.
    #[inline]
    pub fn turn(&mut self, proc: Option<PId>) {
        if !self.asked.is_empty()
            && let Some(proc) = proc
        {
            self.asked.remove(&proc);
        }
    }

    fn ask(&mut self, proc: PId, goroutine: GId, now: Nanos) {
        let asked = self.asked.entry(proc).or_insert((goroutine, now));
        if asked.0 != goroutine {
            *asked = (goroutine, now);
        }
    }

    fn preempted(&mut self, event: &Event) {
        let Some(proc) = event.p else { return };
        if let Some((goroutine, since)) = self.asked.remove(&proc)
            && Some(goroutine) == event.g
        {
            self.delays.record(event.time.since(since));
        }
    }

    /// Times that a goroutine was asked for its P.
    pub fn asked(&self) -> u64 {
        self.asked_for_slice + self.asked_urgently
    }

    /// Ps that were given to another thread directly.
    pub fn handed_on(&self) -> u64 {
        self.by_frozen + self.to_frozen + self.to_locked
    }
}

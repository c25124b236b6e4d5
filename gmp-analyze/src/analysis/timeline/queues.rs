//! How many goroutines wait in which queue, derived from what happened.
//!
//! A goroutine made or woken by a thread with a P goes to the queue of that P, without one to the
//! global queue; steals, batches and overflows say how many moved; a start says where the goroutine
//! was found. Nothing of this is in a trace of Go, which does not tell where a goroutine was found.

use super::columns::{Columns, Level, Scale};
use gmp_trace::event::{Found, GState, StealFrom};
use gmp_trace::id::PId;
use gmp_trace::time::Nanos;
use gmp_trace::{Body, Event};

/// Ps from this number on share a queue of the picture.
const PROCS: usize = 128;

/// One queue, and whether its P took a batch that its next start belongs to.
#[derive(Clone, Debug, Default)]
struct Local {
    level: Level,
    batch: bool,
}

/// A change of one queue: which (`None` is the global one), and by how much.
type Change = (Option<usize>, i64);

/// The queues while the trace is read.
#[derive(Clone, Debug, Default)]
pub(super) struct Queues {
    global: Level,
    local: Vec<Local>,
    /// True once a start said where its goroutine was found.
    told: bool,
}

impl Queues {
    /// What `event` does to queues: up to two changes.
    #[inline]
    pub(super) fn changes(&mut self, event: &Event) -> [Option<Change>; 2] {
        let here = event.p.map(|p| self.number(p));
        match event.body {
            Body::GoStart { found } => [self.start(here, found), None],
            Body::GoCreate { runnable: true, .. } | Body::GoReady { .. } => [Some((here, 1)), None],
            Body::GoYield { .. } => [Some((here, 1)), None],
            Body::GoPreempted { .. } | Body::SyscallExitBlocked => [Some((None, 1)), None],
            Body::Steal { .. } | Body::GlobalBatch { .. } | Body::RunqOverflow { .. } => {
                self.moves(here, event)
            }
            Body::GoStatus {
                state: GState::Runnable,
                ..
            } => [None, None],
            // A P gives itself up only when its queue is empty: whatever was missed is set right.
            Body::ProcStop => match here {
                Some(p) if self.local[p].level.now() != 0 => {
                    [Some((here, -self.local[p].level.now())), None]
                }
                _ => [None, None],
            },
            _ => [None, None],
        }
    }

    #[inline]
    fn start(&mut self, here: Option<usize>, found: Option<Found>) -> Option<Change> {
        let found = found?;
        self.told = true;
        let batch = here.is_some_and(|p| std::mem::take(&mut self.local[p].batch));
        let from = match found {
            Found::Runnext
            | Found::Local
            | Found::Stolen
            | Found::StolenRunnext
            | Found::Netpoll
            | Found::Timer
            | Found::Handoff => here,
            Found::Global if batch => here,
            Found::Global | Found::Locked | Found::Wired | Found::Urgent => None,
        };
        Some((from, -1))
    }

    fn moves(&mut self, here: Option<usize>, event: &Event) -> [Option<Change>; 2] {
        match event.body {
            Body::Steal {
                what: StealFrom::Timers,
                ..
            } => [None, None],
            Body::Steal { victim, n, .. } => {
                let victim = self.number(victim);
                [Some((Some(victim), -i64::from(n))), Some((here, n.into()))]
            }
            Body::GlobalBatch { n } => {
                if let Some(p) = here {
                    self.local[p].batch = true;
                }
                [Some((None, -i64::from(n))), Some((here, n.into()))]
            }
            Body::RunqOverflow { n } => [Some((here, -i64::from(n))), Some((None, n.into()))],
            _ => [None, None],
        }
    }

    fn number(&mut self, p: PId) -> usize {
        let number = (p.get() as usize).min(PROCS);
        if number >= self.local.len() {
            self.local.resize_with(number + 1, Local::default);
        }
        number
    }

    /// The queue of a change.
    #[inline]
    pub(super) fn level(&mut self, which: Option<usize>) -> &mut Level {
        match which {
            None => &mut self.global,
            Some(p) => &mut self.local[p].level,
        }
    }

    /// Every queue.
    pub(super) fn levels(&mut self) -> impl Iterator<Item = &mut Level> {
        let local = self.local.iter_mut().map(|local| &mut local.level);
        std::iter::once(&mut self.global).chain(local)
    }

    /// Two neighbouring columns become one.
    pub(super) fn fold(&mut self, scale: &Scale) {
        for level in self.levels() {
            level.columns_mut().fold(scale);
        }
    }

    /// True where the trace tells enough.
    pub(super) fn are_derivable(&self) -> bool {
        self.told
    }

    pub(super) fn global(&self) -> &Columns {
        self.global.columns()
    }

    /// By number of the P.
    pub(super) fn local(&self) -> impl Iterator<Item = &Columns> {
        self.local.iter().map(|local| local.level.columns())
    }
}

/// How long a level was what it was, up to `now`.
pub(super) fn stretch(level: &Level, now: Nanos) -> Option<(Nanos, Nanos, i64)> {
    let (since, value) = level.open();
    (value != 0 && since < now).then_some((since, now, value))
}

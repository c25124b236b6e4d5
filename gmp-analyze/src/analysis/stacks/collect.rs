//! The sink that collects stacks, span by span.

use super::{Amount, Detail, Lineage, RunEnd, StackGroup, StackKey, StackKind, Stacks};
use crate::analysis::window::Window;
use crate::machine::{
    GoroutineBirth, GoroutineDeath, GoroutineSpan, GoroutineState, Place, Sink, Wake,
};
use gmp_trace::id::GId;
use gmp_trace::tables::StackRef;
use gmp_trace::time::Nanos;
use gmp_trace::{Body, Event};
use rustc_hash::FxHashMap;

/// What the last event said about the goroutine that turns now.
#[derive(Clone, Copy, Debug)]
struct Said {
    goroutine: GId,
    end: RunEnd,
    stack: Option<StackRef>,
    place: Place,
}

/// A runnable span that waits for the wake that tells its cause.
#[derive(Clone, Copy, Debug)]
struct Unstarted {
    slot: usize,
    key: StackKey,
    amount: Amount,
}

/// One living goroutine.
#[derive(Clone, Copy, Debug, Default)]
struct Living {
    group: u32,
    lineage: u32,
    /// Where it stopped to run, in full.
    stack: Option<StackRef>,
    /// The state of its last span.
    last: Option<GoroutineState>,
}

/// Collects stacks of one kind.
#[derive(Clone, Debug)]
pub struct StackCollector {
    kind: StackKind,
    window: Window,
    begin: Option<Nanos>,
    group_index: FxHashMap<Place, u32>,
    groups: Vec<StackGroup>,
    lineage_index: FxHashMap<Lineage, u32>,
    lineages: Vec<Lineage>,
    living: Vec<Living>,
    /// Slots of living goroutines, for kinds that meet goroutines by number.
    slots: FxHashMap<GId, usize>,
    said: Option<Said>,
    unstarted: Option<Unstarted>,
    sums: FxHashMap<StackKey, Amount>,
    samples: FxHashMap<StackKey, Amount>,
}

impl StackCollector {
    /// Collects stacks of `kind` within `window`.
    pub fn new(kind: StackKind, window: Window) -> StackCollector {
        StackCollector {
            kind,
            window,
            begin: None,
            group_index: FxHashMap::default(),
            groups: Vec::new(),
            lineage_index: FxHashMap::default(),
            lineages: Vec::new(),
            living: Vec::new(),
            slots: FxHashMap::default(),
            said: None,
            unstarted: None,
            sums: FxHashMap::default(),
            samples: FxHashMap::default(),
        }
    }

    /// What was collected.
    pub fn into_stacks(mut self) -> Stacks {
        self.flush();
        Stacks {
            kind: self.kind,
            begun: self.begin.is_some(),
            groups: self.groups,
            lineages: self.lineages,
            sums: sorted(self.sums),
            samples: sorted(self.samples),
        }
    }

    /// The number of the group of goroutines made at `made_at`.
    fn group_of(&mut self, made_at: Place, existed: bool) -> u32 {
        let next = self.groups.len() as u32;
        let group = *self.group_index.entry(made_at).or_insert(next);
        if group == next {
            self.groups.push(StackGroup {
                made_at,
                made: false,
                existed: false,
            });
        }
        let entry = &mut self.groups[group as usize];
        entry.existed |= existed;
        entry.made |= !existed;
        group
    }

    fn lineage_of(&mut self, creator: Option<GId>, group: u32) -> u32 {
        let creator = creator.and_then(|id| self.slots.get(&id));
        let lineage = Lineage {
            creator: creator.map(|&slot| self.living[slot].lineage),
            group,
        };
        let next = self.lineages.len() as u32;
        let number = *self.lineage_index.entry(lineage).or_insert(next);
        if number == next {
            self.lineages.push(lineage);
        }
        number
    }

    /// True where goroutines are looked up by number.
    fn needs_slots(&self) -> bool {
        matches!(self.kind, StackKind::Cpu | StackKind::Create)
    }

    /// What the event says about why and where the event's goroutine stops to run.
    fn hear(&mut self, event: &Event) -> Option<Said> {
        let said = |goroutine: Option<GId>, end, stack, place| {
            goroutine.map(|goroutine| Said {
                goroutine,
                end,
                stack,
                place,
            })
        };
        match event.body {
            Body::GoPark {
                reason,
                site,
                stack,
                ..
            } => said(
                event.g,
                RunEnd::Wait(reason),
                stack,
                full_place(site.map(Place::Site), stack),
            ),
            Body::SyscallEnter { site, stack } => said(
                event.g,
                RunEnd::Syscall,
                stack,
                full_place(site.map(Place::Site), stack),
            ),
            Body::GoYield { stack } => said(event.g, RunEnd::Yield, stack, full_place(None, stack)),
            Body::GoPreempted { stack, .. } => {
                said(event.g, RunEnd::Preemption, stack, full_place(None, stack))
            }
            Body::GoExit { .. } => said(event.g, RunEnd::Exit, None, Place::Unknown),
            Body::SyscallImplicit { goroutine, .. } => {
                said(Some(goroutine), RunEnd::Syscall, None, Place::Unknown)
            }
            Body::GoStatus {
                goroutine, stack, ..
            } => said(Some(goroutine), RunEnd::Unknown, stack, Place::Unknown),
            _ => None,
        }
    }

    fn sample(&mut self, event: &Event, stack: Option<StackRef>) {
        let begin = self.begin.unwrap_or(event.time);
        let at = event.time.since(begin);
        if !self.window.holds(at) {
            return;
        }
        let slot = event.g.and_then(|id| self.slots.get(&id));
        let key = StackKey {
            group: slot.map(|&slot| self.living[slot].group),
            detail: Detail::Sample,
            place: stack.map_or(Place::Unknown, Place::Stack),
        };
        let amount = self.samples.entry(key).or_default();
        amount.add(Nanos::ZERO, 1);
    }

    /// The stack of a span; what is said about its end is in `said`.
    fn key(&self, span: &GoroutineSpan, said: Option<Said>) -> StackKey {
        let living = &self.living[span.slot];
        let place = full_place(Some(span.place), living.stack);
        let in_syscall = matches!(
            span.state,
            GoroutineState::Syscall | GoroutineState::SyscallWithoutP
        );
        let (detail, place) = match self.kind {
            StackKind::Wall if span.state == GoroutineState::Waiting => {
                (Detail::Wait(span.reason), place)
            }
            StackKind::Wall if in_syscall => (Detail::State(span.state), place),
            StackKind::Wall => (Detail::State(span.state), Place::Unknown),
            StackKind::Cpu => match said {
                _ if span.open => (Detail::Run(RunEnd::TraceEnd), Place::Unknown),
                Some(said) => (Detail::Run(said.end), said.place),
                None => (Detail::Run(RunEnd::Unknown), Place::Unknown),
            },
            StackKind::Block => (Detail::Wait(span.reason), place),
            StackKind::Sched => (Detail::Queue(None, None), Place::Unknown),
            StackKind::Syscall => {
                let taken = span.state == GoroutineState::SyscallWithoutP;
                (Detail::Syscall(taken), place)
            }
            StackKind::Create => (Detail::Ancestry, Place::Unknown),
        };
        let group = if self.kind == StackKind::Create {
            living.lineage
        } else {
            living.group
        };
        StackKey {
            group: Some(group),
            detail,
            place,
        }
    }

    /// How often a span counts: a system call that loses its P is one call in two spans.
    fn count(&self, span: &GoroutineSpan) -> u64 {
        let goes_on = self.kind == StackKind::Syscall
            && span.state == GoroutineState::SyscallWithoutP
            && self.living[span.slot].last == Some(GoroutineState::Syscall);
        u64::from(!goes_on)
    }

    fn add(&mut self, key: StackKey, amount: Amount) {
        let sum = self.sums.entry(key).or_default();
        sum.add(amount.time, amount.count);
    }

    /// A runnable span whose goroutine did not start.
    fn flush(&mut self) {
        if let Some(unstarted) = self.unstarted.take() {
            self.add(unstarted.key, unstarted.amount);
        }
    }
}

fn sorted(sums: FxHashMap<StackKey, Amount>) -> Vec<(StackKey, Amount)> {
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_unstable_by_key(|(key, _)| *key);
    sums
}

/// The stack where there is one, else the place.
fn full_place(place: Option<Place>, stack: Option<StackRef>) -> Place {
    match (stack, place) {
        (Some(stack), _) => Place::Stack(stack),
        (None, Some(place)) => place,
        (None, None) => Place::Unknown,
    }
}

impl Sink for StackCollector {
    #[inline]
    fn event(&mut self, event: &Event) {
        if self.begin.is_none() {
            self.begin = Some(event.time);
        }
        if let Body::CpuSample { stack } = event.body
            && self.kind == StackKind::Cpu
        {
            self.sample(event, stack);
        }
        self.said = self.hear(event);
    }

    fn goroutine_begin(&mut self, birth: &GoroutineBirth) {
        let group = self.group_of(birth.made_at, birth.existed);
        let mut lineage = 0;
        if self.kind == StackKind::Create {
            lineage = self.lineage_of(birth.creator, group);
        }
        if self.needs_slots() {
            self.slots.insert(birth.goroutine, birth.slot);
        }
        if birth.slot >= self.living.len() {
            self.living.resize(birth.slot + 1, Living::default());
        }
        let said = self.said.filter(|said| said.goroutine == birth.goroutine);
        self.living[birth.slot] = Living {
            group,
            lineage,
            stack: said.and_then(|said| said.stack),
            last: None,
        };
    }

    #[inline]
    fn goroutine_span(&mut self, span: &GoroutineSpan) {
        self.flush();
        let said = self.said.filter(|said| said.goroutine == span.goroutine);
        if self.kind.takes(span.state) {
            let begin = self.begin.unwrap_or(span.begin);
            let part = self.window.clip(span.begin - begin, span.end - begin);
            if let Some((begin, end)) = part {
                let time = end.since(begin);
                let key = self.key(span, said);
                let count = self.count(span);
                let amount = Amount { time, count };
                if self.kind == StackKind::Sched {
                    let slot = span.slot;
                    self.unstarted = Some(Unstarted { slot, key, amount });
                } else {
                    self.add(key, amount);
                }
            }
        }
        let living = &mut self.living[span.slot];
        living.last = Some(span.state);
        if let Some(said) = said {
            living.stack = said.stack;
        }
    }

    fn goroutine_end(&mut self, death: &GoroutineDeath) {
        if self.needs_slots() {
            self.slots.remove(&death.goroutine);
        }
    }

    #[inline]
    fn wake(&mut self, wake: &Wake) {
        let Some(mut unstarted) = self.unstarted.take() else {
            return;
        };
        if unstarted.slot == wake.slot {
            unstarted.key.detail = Detail::Queue(Some(wake.cause), wake.found);
        }
        self.add(unstarted.key, unstarted.amount);
    }
}

//! What one record does: first to the states, then as one or two events.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use crate::anomaly::{Anomalies, AnomalyKind};
use crate::error::Error;
use crate::event::{Body, Event, ExitHow, Found, PState};
use crate::id::{GId, MId, PId};
use crate::info::{LoadedModule, TraceInfo};
use crate::input::ReadAt;
use crate::native::batch::Batch;
use crate::native::bodies::{Meaning, optional_m, p_id};
use crate::native::clock::Clock;
use crate::native::cursor::Cursor;
use crate::native::lookup::Lookup;
use crate::native::order::{Key, Order, Turn};
use crate::native::parse::Args;
use crate::native::states::{GoState, NOBODY, ProcState};
use crate::small::Small;
use crate::spec::{Head, Kind};
use crate::tables::Tables;

/// What lives as long as the trace.
pub(super) struct Shared {
    pub(super) arities: Box<[u8; 256]>,
    pub(super) tables: Tables,
    pub(super) anomalies: Anomalies,
    pub(super) info: TraceInfo,
    pub(super) clock: Clock,
    /// Loaded files that are in `info` already.
    pub(super) modules: HashSet<LoadedModule>,
    /// The file in which payloads were left.
    pub(super) file: Option<Arc<dyn ReadAt>>,
    /// What the file said when a payload could not be read.
    pub(super) failed: Option<Error>,
    /// Time of the last event, in units of the clock.
    pub(super) last_ticks: u64,
    /// Where the block begins whose records are given.
    pub(super) offset: u64,
    /// The events that are given next.
    pub(super) out: Batch,
}

/// Who an event is about.
#[derive(Clone, Copy)]
pub(super) struct Who {
    pub(super) m: Option<MId>,
    pub(super) p: Option<PId>,
    pub(super) g: Option<GId>,
}

impl Who {
    /// Nobody.
    pub(super) const NOBODY: Who = Who {
        m: None,
        p: None,
        g: None,
    };
}

impl Shared {
    /// Gives an event at `ticks`.
    #[inline(always)]
    pub(super) fn emit(&mut self, ticks: u64, who: Who, body: Body) {
        let time = self.time(ticks);
        let order = self.info.events;
        self.info.events = order + 1;
        self.out.push(Event {
            time,
            order,
            m: who.m,
            p: who.p,
            g: who.g,
            body,
        });
    }

    #[inline(always)]
    fn time(&mut self, ticks: u64) -> crate::time::Nanos {
        if ticks < self.last_ticks {
            self.count_skew(ticks);
        }
        self.last_ticks = ticks;
        self.clock.at(ticks)
    }

    #[cold]
    #[inline(never)]
    fn count_skew(&mut self, ticks: u64) {
        let back = self.clock.duration(self.last_ticks - ticks).0;
        self.anomalies
            .add(AnomalyKind::ClockSkew, self.offset, back as u64);
    }
}

/// What the records of a generation are done to.
pub(super) struct World {
    pub(super) by_m: BTreeMap<MId, u32>,
    pub(super) lookup: Lookup,
    pub(super) order: Order,
}

impl World {
    /// Does what the record of `source`, which is cursor `cursor`, says, or tells what it has to wait
    /// for.
    #[inline(always)]
    pub(super) fn step(
        &mut self,
        source: &mut Cursor,
        cursor: u32,
        force: bool,
        shared: &mut Shared,
    ) -> Result<(), Key> {
        if source.opened.is_some() {
            self.opened(source, cursor);
        }
        let Some(head) = source.record.head else {
            self.unknown(source, cursor, shared);
            return Ok(());
        };
        match head.kind {
            Kind::ParkStart | Kind::YieldStart | Kind::ExitStart => {
                self.switch(head, source, (cursor, force), shared)
            }
            Kind::Start | Kind::Ready => self.start_or_ready(head, source, (cursor, force), shared),
            _ => self.other(head, source, (cursor, force), shared),
        }
    }

    #[cold]
    fn opened(&mut self, source: &mut Cursor, cursor: u32) {
        if let Some(opened) = source.opened.take() {
            self.order.opened(cursor, opened);
        }
    }

    /// One goroutine stops, the next one starts.
    #[inline(always)]
    fn switch(
        &mut self,
        head: &Head,
        source: &mut Cursor,
        (cursor, force): (u32, bool),
        shared: &mut Shared,
    ) -> Result<(), Key> {
        let args = &source.record.args;
        let offset = source.offset();
        let before = self.order.held[cursor as usize];
        let (to, at) = match head.kind {
            Kind::ParkStart => (GoState::Waiting, 2),
            Kind::YieldStart => (GoState::Runnable, 1),
            _ => (GoState::Dead, 1),
        };
        let Some(g) = GId::new(args[at]) else {
            shared.anomalies.add(AnomalyKind::BadRecord, offset, 0);
            return Ok(());
        };
        let seq = head.with_seq.then(|| seq(args[at + 1]));
        let mut turn = Turn {
            cursor,
            force,
            anomalies: &mut shared.anomalies,
            offset,
        };
        self.order.switch(to, g.get(), seq, &mut turn)?;
        let stack = source.stack.take();
        let body = match head.kind {
            Kind::ParkStart => {
                let wait = source.wait(source.record.args[1], &mut shared.anomalies);
                Body::GoPark {
                    reason: wait.reason,
                    object: wait.object,
                    site: wait.site,
                    stack,
                }
            }
            Kind::YieldStart => Body::GoYield { stack },
            _ => Body::GoExit {
                how: Some(ExitHow::Returned),
            },
        };
        let found = if head.value == 0 {
            Found::Runnext
        } else {
            Found::Local
        };
        let (m, p) = (source.m, before.p);
        let (time, order) = (shared.time(source.time), shared.info.events);
        shared.info.events = order + 2;
        shared.out.push(Event {
            time,
            order,
            m,
            p,
            g: before.g,
            body,
        });
        let (order, body) = (order + 1, Body::GoStart { found: Some(found) });
        shared.out.push(Event {
            time,
            order,
            m,
            p,
            g: Some(g),
            body,
        });
        Ok(())
    }

    /// A goroutine starts, or stops waiting.
    #[inline(always)]
    fn start_or_ready(
        &mut self,
        head: &Head,
        source: &mut Cursor,
        (cursor, force): (u32, bool),
        shared: &mut Shared,
    ) -> Result<(), Key> {
        let [_, g, number, ..] = source.record.args;
        let offset = source.offset();
        let Some(goroutine) = GId::new(g) else {
            shared.anomalies.add(AnomalyKind::BadRecord, offset, 0);
            return Ok(());
        };
        let seq = head.with_seq.then(|| seq(number));
        let before = self.order.held[cursor as usize];
        let mut turn = Turn {
            cursor,
            force,
            anomalies: &mut shared.anomalies,
            offset,
        };
        if head.kind == Kind::Start {
            self.order.start(g, seq, &mut turn)?;
            source.stack = None;
            let who = Who {
                m: source.m,
                p: before.p,
                g: Some(goroutine),
            };
            let body = Body::GoStart {
                found: Small::from_number(head.value),
            };
            shared.emit(source.time, who, body);
        } else {
            self.order.ready(g, seq, &mut turn)?;
            let (by, stack) = (Small::from_number(head.value), source.stack.take());
            let who = Who {
                m: source.m,
                p: before.p,
                g: before.g,
            };
            shared.emit(
                source.time,
                who,
                Body::GoReady {
                    goroutine,
                    by,
                    stack,
                },
            );
        }
        Ok(())
    }

    /// Any other record.
    #[inline(never)]
    fn other(
        &mut self,
        head: &Head,
        source: &mut Cursor,
        (cursor, force): (u32, bool),
        shared: &mut Shared,
    ) -> Result<(), Key> {
        let offset = source.offset();
        let before = self.order.held[cursor as usize];
        let mut turn = Turn {
            cursor,
            force,
            anomalies: &mut shared.anomalies,
            offset,
        };
        self.apply(head, &source.record.args, &mut turn)?;
        let after = self.order.held[cursor as usize];
        let who = match head.kind {
            Kind::ProcStart => Who {
                m: source.m,
                p: after.p,
                g: before.g,
            },
            Kind::CpuSample => sampled(&source.record.args),
            _ => Who {
                m: source.m,
                p: before.p,
                g: before.g,
            },
        };
        self.give(head, source, (source.time, who), shared);
        Ok(())
    }

    /// A status or a loss in a control block, at time `begin`.
    pub(super) fn status(
        &mut self,
        head: &Head,
        source: &mut Cursor,
        begin: u64,
        shared: &mut Shared,
    ) {
        let (anomalies, offset) = (&mut shared.anomalies, source.offset());
        let mut turn = Turn {
            cursor: NOBODY,
            force: false,
            anomalies,
            offset,
        };
        // None of these ever waits.
        let _ = self.apply(head, &source.record.args, &mut turn);
        self.give(head, source, (begin, Who::NOBODY), shared);
    }

    /// Gives the event of a record that makes one.
    fn give(
        &mut self,
        head: &Head,
        source: &mut Cursor,
        (time, who): (u64, Who),
        shared: &mut Shared,
    ) {
        let mut meaning = Meaning {
            lookup: &self.lookup,
            clock: &shared.clock,
            tables: &mut shared.tables,
            anomalies: &mut shared.anomalies,
            offset: source.offset(),
            stack: source.stack.take(),
        };
        match meaning.body(head, source) {
            Some(body) => shared.emit(time, who, body),
            None => shared
                .anomalies
                .add(AnomalyKind::BadRecord, source.offset(), 0),
        }
    }

    #[cold]
    fn unknown(&mut self, source: &mut Cursor, cursor: u32, shared: &mut Shared) {
        let [a, b, c, d, ..] = source.record.args;
        let body = Body::Unknown {
            kind: u16::from(source.record.byte),
            args: [a, b, c, d],
        };
        let held = self.order.held[cursor as usize];
        source.stack = None;
        shared.emit(
            source.time,
            Who {
                m: source.m,
                p: held.p,
                g: held.g,
            },
            body,
        );
    }

    /// Brings the states up to the record, or tells what it has to wait for.
    fn apply(&mut self, head: &Head, args: &Args, turn: &mut Turn<'_>) -> Result<(), Key> {
        let (order, by_m) = (&mut self.order, &self.by_m);
        let cursor_of = |m: u64| {
            optional_m(m)
                .and_then(|m| by_m.get(&m))
                .copied()
                .unwrap_or(NOBODY)
        };
        match head.kind {
            Kind::Park => order.leave(GoState::Waiting, turn),
            Kind::Yield | Kind::Preempted => order.leave(GoState::Runnable, turn),
            Kind::Exit => order.leave(GoState::Dead, turn),
            Kind::Create => order.create(args[1], turn),
            Kind::GoStatus => {
                let state = match head.value {
                    1 => GoState::Runnable,
                    2 => GoState::Running,
                    3 => GoState::Syscall,
                    _ => GoState::Waiting,
                };
                order.go_status(args[1], state, cursor_of(args[2]), turn);
            }
            Kind::SyscallEnter => order.syscall(true, turn),
            Kind::SyscallExit => order.syscall(false, turn),
            Kind::SyscallExitBlocked => order.syscall_exit_blocked(turn)?,
            Kind::SyscallImplicit => order.syscall_implicit(args[1], turn)?,
            Kind::RunWithoutP => order.without_p(turn)?,
            Kind::ProcStop | Kind::ProcHandoff => order.proc_stop(turn),
            Kind::ProcStart | Kind::ProcSteal | Kind::ProcStatus => {
                // One that names no P is counted when its event is made.
                let Some(p) = p_id(args[1]).map(PId::get) else {
                    return Ok(());
                };
                match head.kind {
                    Kind::ProcStart => order.proc_start(p, seq(args[2]), turn)?,
                    Kind::ProcSteal => {
                        let why = Small::from_number(head.value);
                        order.proc_steal(p, seq(args[2]), why, turn)?;
                    }
                    _ => {
                        let state = match PState::from_number(head.value) {
                            Some(PState::Running) => ProcState::Running,
                            Some(PState::Syscall) => ProcState::Syscall,
                            Some(PState::Idle) | None => ProcState::Idle,
                        };
                        order.proc_status(p, state, cursor_of(args[2]), turn);
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// Whom a CPU sample is about.
fn sampled(args: &Args) -> Who {
    let p = args[1].checked_sub(1).and_then(p_id);
    Who {
        m: optional_m(args[2]),
        p,
        g: GId::new(args[3]),
    }
}

/// A sequence number as read; one that is too large never comes.
fn seq(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX - 1)
}

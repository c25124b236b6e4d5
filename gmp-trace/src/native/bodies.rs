//! From the numbers of a record to what happened: no state, no order.

use crate::anomaly::{Anomalies, AnomalyKind};
use crate::event::{Body, Preemption};
use crate::id::{GId, MId, ObjectId, PId, TaskId};
use crate::native::clock::Clock;
use crate::native::cursor::Cursor;
use crate::native::lookup::Lookup;
use crate::native::parse::Args;
use crate::small::Small;
use crate::spec::{Head, Kind};
use crate::tables::{SiteRef, StackRef, Tables, Text};
use crate::time::Nanos;

/// Everything that a body may need besides its record.
pub(super) struct Meaning<'a> {
    pub(super) lookup: &'a Lookup,
    pub(super) clock: &'a Clock,
    pub(super) tables: &'a mut Tables,
    pub(super) anomalies: &'a mut Anomalies,
    /// Where the block of the record begins.
    pub(super) offset: u64,
    /// The stack of an `AtStack` record before this one.
    pub(super) stack: Option<StackRef>,
}

impl Meaning<'_> {
    #[cold]
    fn missing(&mut self) {
        self.anomalies
            .add(AnomalyKind::MissingTable, self.offset, 0);
    }

    fn text(&mut self, number: u64) -> Text {
        self.lookup.text(number).unwrap_or_else(|| {
            self.missing();
            Text::EMPTY
        })
    }

    /// The text of a number where 0, the empty text, is none.
    fn optional_text(&mut self, number: u64) -> Option<Text> {
        if number == 0 {
            None
        } else {
            Some(self.text(number))
        }
    }

    #[inline]
    fn site(&mut self, number: u64) -> Option<SiteRef> {
        if number == 0 {
            return None;
        }
        let site = self.lookup.site_ref(number);
        if site.is_none() {
            self.missing();
        }
        site
    }

    fn stack(&mut self, number: u64) -> Option<StackRef> {
        if number == 0 {
            return self.stack;
        }
        let stack = self.lookup.stack_ref(number);
        if stack.is_none() {
            self.missing();
        }
        stack
    }

    /// What a record of one event says; `None` where a number in it cannot be: that is counted.
    #[inline]
    pub(super) fn body(&mut self, head: &Head, cursor: &Cursor) -> Option<Body> {
        let args = &cursor.record.args;
        let value = head.value;
        let body = match head.kind {
            Kind::Park => {
                let wait = cursor.wait(args[1], self.anomalies);
                let (reason, object, site) = (wait.reason, wait.object, wait.site);
                Body::GoPark {
                    reason,
                    object,
                    site,
                    stack: self.stack,
                }
            }
            Kind::Yield => Body::GoYield { stack: self.stack },
            Kind::Create => Body::GoCreate {
                child: GId::new(args[1])?,
                site: self.site(args[2]),
                stack: self.stack,
                start_stack: None,
                runnable: true,
            },
            Kind::Preempted => {
                let how = Preemption::from_number(value).unwrap_or(Preemption::Unknown);
                Body::GoPreempted {
                    how,
                    stack: self.stack,
                }
            }
            Kind::Exit => Body::GoExit {
                how: Small::from_number(value),
            },
            Kind::Label => Body::GoLabel {
                label: self.text(args[1]),
            },
            Kind::GoStatus => return self.go_status(value, args),
            Kind::PreemptRequest
            | Kind::Steal
            | Kind::StealFailed
            | Kind::Overflow
            | Kind::GlobalBatch
            | Kind::ProcStart
            | Kind::ProcStop
            | Kind::RunWithoutP
            | Kind::ProcsChange
            | Kind::ProcSteal
            | Kind::ProcHandoff
            | Kind::ProcStatus => return self.of_proc(head.kind, value, args),
            Kind::MCreate
            | Kind::MExit
            | Kind::MPark
            | Kind::MWake
            | Kind::SpinBegin
            | Kind::SpinEnd
            | Kind::MLock
            | Kind::MUnlock
            | Kind::MCpu
            | Kind::SchedSample => return self.of_thread(head.kind, value, args),
            Kind::Log => return Some(self.log(cursor)),
            kind => return self.other(kind, value, args),
        };
        Some(body)
    }

    fn go_status(&mut self, value: u8, args: &Args) -> Option<Body> {
        let [
            _,
            g,
            on_m,
            reason,
            object,
            site,
            created_at,
            creator,
            label,
            ..,
        ] = *args;
        Some(Body::GoStatus {
            goroutine: GId::new(g)?,
            state: Small::from_number(value)?,
            on_m: optional_m(on_m),
            reason: self.optional_text(reason),
            object: ObjectId::new(object),
            site: self.site(site),
            created_at: self.site(created_at),
            creator: GId::new(creator),
            label: self.optional_text(label),
            stack: self.stack,
        })
    }

    fn of_proc(&mut self, kind: Kind, value: u8, args: &Args) -> Option<Body> {
        let [_, a, b, c, ..] = *args;
        Some(match kind {
            Kind::PreemptRequest => Body::GoPreemptRequested {
                victim: p_id(a)?,
                goroutine: GId::new(b),
                why: Small::from_number(value)?,
            },
            Kind::Steal => Body::Steal {
                victim: p_id(a)?,
                n: count(b),
                what: Small::from_number(value)?,
            },
            Kind::StealFailed => Body::StealFailed { attempts: count(a) },
            Kind::Overflow => Body::RunqOverflow { n: count(a) },
            Kind::GlobalBatch => Body::GlobalBatch { n: count(a) },
            Kind::ProcStart => Body::ProcStart,
            Kind::ProcStop => Body::ProcStop,
            Kind::RunWithoutP => Body::RunWithoutP,
            Kind::ProcsChange => Body::ProcsChange {
                procs: count(a),
                stack: self.stack,
            },
            Kind::ProcSteal => Body::ProcSteal {
                victim: p_id(a)?,
                from_m: optional_m(c),
                why: Small::from_number(value),
            },
            Kind::ProcHandoff => Body::ProcHandoff {
                to_m: optional_m(a),
                why: Small::from_number(value)?,
            },
            Kind::ProcStatus => Body::ProcStatus {
                proc: p_id(a)?,
                state: Small::from_number(value)?,
                on_m: optional_m(b),
            },
            _ => return None,
        })
    }

    fn of_thread(&mut self, kind: Kind, value: u8, args: &Args) -> Option<Body> {
        let a = args[1];
        Some(match kind {
            Kind::MCreate => Body::MCreate {
                child: MId::new(a)?,
            },
            Kind::MExit => Body::MExit,
            Kind::MPark => Body::MPark,
            Kind::MWake => Body::MWake {
                target: MId::new(a)?,
            },
            Kind::SpinBegin => Body::SpinBegin,
            Kind::SpinEnd => Body::SpinEnd { found: value != 0 },
            Kind::MLock => Body::MLock,
            Kind::MUnlock => Body::MUnlock,
            Kind::MCpu => Body::MCpu { cpu: nanos(a) },
            Kind::SchedSample => Body::SchedSample {
                took: self.clock.duration(a),
            },
            _ => return None,
        })
    }

    fn log(&mut self, cursor: &Cursor) -> Body {
        let [_, task, key, ..] = cursor.record.args;
        let value = self
            .tables
            .intern_text(&String::from_utf8_lossy(cursor.tail()));
        Body::Log {
            task: optional_task(task),
            key: self.text(key),
            value,
            stack: self.stack,
        }
    }

    fn other(&mut self, kind: Kind, value: u8, args: &Args) -> Option<Body> {
        let [_, a, b, c, ..] = *args;
        Some(match kind {
            Kind::SyscallEnter => Body::SyscallEnter {
                site: self.site(a),
                stack: self.stack(b),
            },
            Kind::SyscallExit => Body::SyscallExit,
            Kind::SyscallExitBlocked => Body::SyscallExitBlocked,
            Kind::SyscallImplicit => Body::SyscallImplicit {
                goroutine: GId::new(a)?,
                on_m: MId::new(b)?,
            },
            Kind::Netpoll => Body::Netpoll {
                blocking: value != 0,
                ready: count(a),
            },
            Kind::TimerFired => Body::TimerFired {
                late: self.clock.duration(a),
                goroutine: GId::new(b),
            },
            Kind::StopRequested => Body::StopRequested {
                kind: self.text(a),
                stack: self.stack,
            },
            Kind::Stopped => Body::Stopped,
            Kind::Restarted => Body::Restarted,
            Kind::SafePoint => Body::SafePoint {
                how: Small::from_number(value).unwrap_or(Preemption::Unknown),
            },
            Kind::GcBegin => Body::GcBegin {
                cycle: a,
                stack: self.stack,
            },
            Kind::GcActive => Body::GcActive { cycle: a },
            Kind::GcEnd => Body::GcEnd {
                cycle: a,
                pages: Some(b),
                stacks: Some(c),
            },
            Kind::Metric => Body::Metric {
                name: self.text(a),
                value: b,
            },
            Kind::TaskBegin => Body::TaskBegin {
                task: TaskId(a),
                parent: optional_task(b),
                name: self.text(c),
                stack: self.stack,
            },
            Kind::TaskEnd => Body::TaskEnd {
                task: TaskId(a),
                stack: self.stack,
            },
            Kind::RegionBegin => Body::RegionBegin {
                task: optional_task(a),
                name: self.text(b),
                stack: self.stack,
            },
            Kind::RegionEnd => Body::RegionEnd {
                task: optional_task(a),
                name: self.text(b),
                stack: self.stack,
            },
            Kind::CpuSample => Body::CpuSample {
                stack: self.stack(args[4]),
            },
            Kind::Loss => Body::Loss { events: args[0] },
            _ => return None,
        })
    }
}

/// An M that may be none, as read: 0 is none, else one more than its number.
pub(super) fn optional_m(number: u64) -> Option<MId> {
    number.checked_sub(1).and_then(MId::new)
}

/// A P's number as read.
pub(super) fn p_id(number: u64) -> Option<PId> {
    u32::try_from(number).ok().and_then(PId::new)
}

fn optional_task(number: u64) -> Option<TaskId> {
    (number != 0).then_some(TaskId(number))
}

fn count(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// Nanoseconds as read; the longest time there is where they are more.
pub(super) fn nanos(number: u64) -> Nanos {
    Nanos(i64::try_from(number).unwrap_or(i64::MAX))
}

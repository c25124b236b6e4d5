//! What has to be so before an event may come, and the events that make it so where the trace lacks
//! them.
//!
//! Go's reader refuses a trace in which, say, a goroutine starts that is not runnable, or on a thread
//! without a P. Of a whole trace nothing is missing but what Go's format wants and the trace has no
//! need to say; of a damaged one much may be. Either way the events are added here, at the time of the
//! event that needs them, and counted.

use std::io::Write;

use super::Writer;
use super::file::NO_THREAD;
use super::world::NO_SLOT;
use crate::event::Event;
use crate::go::spec;
use crate::go::states::{GStatus, NOBODY, PStatus};
use crate::id::{GId, PId};

/// Where an event is written: the slot of a thread, and the time in the trace that is written.
#[derive(Clone, Copy, Debug)]
pub(super) struct At {
    pub(super) m: u32,
    pub(super) time: u64,
}

impl At {
    pub(super) fn on(self, m: u32) -> At {
        At { m, ..self }
    }
}

/// Numbers from here on stand for threads that a trace has and does not name: that of a P.
const UNNAMED_BY_P: u64 = 1 << 40;

/// As [`UNNAMED_BY_P`], that of a goroutine in a system call.
const UNNAMED_BY_G: u64 = 1 << 41;

impl<W: Write> Writer<W> {
    // ---- writing

    /// Writes an event of the trace.
    pub(super) fn put(&mut self, at: At, kind: u8, args: &[u64]) {
        self.latest = self.latest.max(at.time);
        let thread = self.world.m(at.m);
        thread.batch.event(&mut self.file, at.time, kind, args);
    }

    /// Writes an event that the trace does not have.
    pub(super) fn add(&mut self, at: At, kind: u8, args: &[u64]) {
        let name = spec::spec(kind).map_or("", |spec| spec.name);
        *self.outcome.added.entry(name).or_default() += 1;
        self.put(at, kind, args);
    }

    fn put_or_add(&mut self, at: At, kind: u8, args: &[u64], added: bool) {
        if added {
            self.add(at, kind, args);
        } else {
            self.put(at, kind, args);
        }
    }

    // ---- statuses

    /// The goroutine's status has been written in this generation.
    pub(super) fn state(&mut self, g: u32, at: At) {
        let goroutine = self.world.g(g);
        let due = goroutine.stated != self.file.generation && goroutine.status != GStatus::Unknown;
        if due {
            let thread = goroutine.thread;
            let at = if thread == NOBODY { at } else { at.on(thread) };
            self.put_status(g, at, 0, true);
        }
    }

    pub(super) fn put_status(&mut self, g: u32, at: At, stack: u64, added: bool) {
        let generation = self.file.generation;
        let goroutine = self.world.g(g);
        (goroutine.stated, goroutine.sequence) = (generation, 0);
        let (id, status) = (goroutine.id.get(), goroutine.status.number());
        let thread = goroutine.thread;
        let m = match thread {
            NOBODY => NO_THREAD,
            thread => self.world.m(thread).id,
        };
        let args = [id, m, status, stack];
        let (kind, args) = match stack {
            0 => (spec::GO_STATUS, &args[..3]),
            _ => (spec::GO_STATUS_STACK, &args[..]),
        };
        self.put_or_add(at, kind, args, added);
    }

    /// The P's status has been written in this generation.
    pub(super) fn state_proc(&mut self, p: u32, at: At) {
        let proc = self.world.p(p);
        if proc.stated != self.file.generation && proc.status != PStatus::Unknown {
            let thread = proc.thread;
            let at = if thread == NOBODY { at } else { at.on(thread) };
            self.put_proc_status(p, at, true);
        }
    }

    pub(super) fn put_proc_status(&mut self, p: u32, at: At, added: bool) {
        let generation = self.file.generation;
        let proc = self.world.p(p);
        (proc.stated, proc.sequence) = (generation, 0);
        let args = [u64::from(proc.id.get()), proc.status.number()];
        self.put_or_add(at, spec::PROC_STATUS, &args, added);
    }

    // ---- threads

    /// The thread of an event that happens on one, also where the trace does not name it.
    pub(super) fn real(&mut self, at: At, event: &Event) -> At {
        if at.m != NO_SLOT {
            return at;
        }
        let of_g = event.g.map(|g| self.world.goroutine(g));
        let bound = of_g.map(|g| self.world.g(g).thread);
        if let Some(bound) = bound.filter(|&bound| bound != NOBODY) {
            return at.on(bound);
        }
        let of_p = event.p.map(|p| self.world.proc(p));
        let held = of_p.map(|p| self.world.p(p).thread);
        if let Some(held) = held.filter(|&held| held != NOBODY) {
            return at.on(held);
        }
        let id = match (event.p, event.g) {
            (Some(p), _) => UNNAMED_BY_P | u64::from(p.get()),
            (None, g) => UNNAMED_BY_G | g.map_or(0, GId::get),
        };
        at.on(self.world.thread_with(id))
    }

    /// The thread that a goroutine in a system call is on, where the trace does not name it.
    pub(super) fn unnamed_thread(&mut self, g: u32) -> u32 {
        let id = UNNAMED_BY_G | self.world.g(g).id.get();
        self.world.thread_with(id)
    }

    /// The thread has no goroutine but perhaps `g`.
    pub(super) fn vacate(&mut self, at: At, g: u32) {
        let other = self.world.m(at.m).g;
        if other != NOBODY && other != g {
            self.bring(other, GStatus::Runnable, at);
        }
    }

    // ---- Ps

    /// The thread has no P.
    pub(super) fn release(&mut self, at: At) {
        let p = self.world.m(at.m).p;
        if p != NOBODY {
            self.state_proc(p, at);
            self.add(at, spec::PROC_STOP, &[]);
            self.world.take(p, PStatus::Idle);
        }
    }

    /// The P is idle.
    pub(super) fn idle(&mut self, p: u32, at: At) {
        let proc = self.world.p(p);
        let thread = proc.thread;
        match proc.status {
            PStatus::Running | PStatus::Syscall => self.release(at.on(thread)),
            PStatus::Abandoned => {
                self.state_proc(p, at);
                let proc = self.world.p(p);
                proc.sequence += 1;
                let id = u64::from(proc.id.get());
                let args = [id, proc.sequence, 0];
                let at = match at.m {
                    NO_SLOT => at.on(self.world.thread_with(UNNAMED_BY_P | id)),
                    _ => at,
                };
                self.add(at, spec::PROC_STEAL, &args);
                self.world.take(p, PStatus::Idle);
            }
            PStatus::Idle | PStatus::Unknown => {}
        }
    }

    /// The thread holds `wanted`, or, where that is not said, any P.
    pub(super) fn acquire(&mut self, at: At, wanted: Option<PId>) {
        let wanted = wanted.map(|p| self.world.proc(p));
        let held = self.world.m(at.m).p;
        if held != NOBODY && wanted.is_none_or(|wanted| wanted == held) {
            return self.state_proc(held, at);
        }
        self.release(at);
        let p = wanted.unwrap_or_else(|| self.world.spare_proc());
        self.start_proc(p, at, true);
    }

    /// The thread, which has no P, begins with `p`.
    pub(super) fn start_proc(&mut self, p: u32, at: At, added: bool) {
        self.idle(p, at);
        self.state_proc(p, at);
        let unknown = self.world.p(p).status == PStatus::Unknown;
        self.world.give(p, at.m, PStatus::Running);
        if unknown {
            return self.put_proc_status(p, at, added);
        }
        let proc = self.world.p(p);
        proc.sequence += 1;
        let args = [u64::from(proc.id.get()), proc.sequence];
        self.put_or_add(at, spec::PROC_START, &args, added);
    }

    // ---- goroutines

    /// The goroutine, which is runnable, begins to run on the thread.
    pub(super) fn start(&mut self, g: u32, at: At, p: Option<PId>, added: bool) {
        self.vacate(at, g);
        self.acquire(at, p);
        self.state(g, at);
        let goroutine = self.world.g(g);
        goroutine.sequence += 1;
        let args = [goroutine.id.get(), goroutine.sequence];
        self.put_or_add(at, spec::GO_START, &args, added);
        self.world.bind(g, at.m, GStatus::Running);
    }

    /// The goroutine, which is in a system call, is back without a P.
    pub(super) fn end_blocked(&mut self, g: u32, at: At, added: bool) {
        let at = at.on(self.world.g(g).thread);
        self.state(g, at);
        let p = self.world.m(at.m).p;
        if p != NOBODY && self.world.p(p).status == PStatus::Syscall {
            self.release(at);
        }
        self.put_or_add(at, spec::GO_SYSCALL_END_BLOCKED, &[], added);
        self.world.unbind(g);
        self.world.g(g).status = GStatus::Runnable;
    }

    /// The goroutine, which runs, enters a system call.
    pub(super) fn begin_syscall(&mut self, g: u32, at: At, stack: u64, added: bool) {
        self.acquire(at, None);
        self.state(g, at);
        let p = self.world.m(at.m).p;
        let proc = self.world.p(p);
        proc.sequence += 1;
        proc.status = PStatus::Syscall;
        let args = [proc.sequence, stack];
        self.put_or_add(at, spec::GO_SYSCALL_BEGIN, &args, added);
        self.world.g(g).status = GStatus::Syscall;
    }

    /// The goroutine is in status `to`: on the thread of `at`, where it is on one.
    pub(super) fn bring(&mut self, g: u32, to: GStatus, at: At) {
        use GStatus::{Runnable, Running, Syscall, Unknown, Waiting};
        let goroutine = self.world.g(g);
        let runs = match to {
            Running | Syscall => true,
            // It has to run in between.
            Waiting => !matches!(goroutine.status, Waiting | Unknown),
            Runnable | Unknown => false,
        };
        let thread = goroutine.thread;
        let at = match thread {
            _ if at.m != NO_SLOT || !runs => at,
            NOBODY => at.on(self.unnamed_thread(g)),
            thread => at.on(thread),
        };
        // Three steps at most lead from any status to any other.
        for _ in 0..3 {
            let goroutine = self.world.g(g);
            let (from, thread) = (goroutine.status, goroutine.thread);
            let here = at.on(thread);
            match (from, to) {
                (Unknown, _) => self.introduce(g, to, at),
                (Running, Running | Syscall | Waiting) | (Syscall, Syscall | Running)
                    if thread != at.m =>
                {
                    self.leave(g, here);
                }
                (Runnable, Runnable) | (Waiting, Waiting) | (Running, Running) => break,
                (Syscall, Syscall) => break,
                (Waiting, _) => self.unblock(g, at, 0, true),
                (Runnable, _) => self.start(g, at, None, true),
                (Running, Waiting) => {
                    self.acquire(here, None);
                    let reason = self.names.string("unspecified", &mut self.file);
                    self.stop(g, here, spec::GO_BLOCK, (reason, 0), true);
                }
                (Running, Syscall) => self.begin_syscall(g, here, 0, true),
                (Syscall, Running) => {
                    let p = self.world.m(thread).p;
                    if p != NOBODY && self.world.p(p).status == PStatus::Syscall {
                        self.end_syscall(g, here, true);
                    } else {
                        self.end_blocked(g, here, true);
                    }
                }
                (Running | Syscall, _) => self.leave(g, here),
            }
        }
        debug_assert_eq!(self.world.g(g).status, to);
    }

    /// The goroutine's system call ends, and its thread still has its P.
    pub(super) fn end_syscall(&mut self, g: u32, at: At, added: bool) {
        self.state(g, at);
        let p = self.world.m(at.m).p;
        self.state_proc(p, at);
        self.put_or_add(at, spec::GO_SYSCALL_END, &[], added);
        self.world.p(p).status = PStatus::Running;
        self.world.g(g).status = GStatus::Running;
    }

    /// The goroutine, which is on the thread, becomes runnable.
    fn leave(&mut self, g: u32, at: At) {
        if self.world.g(g).status == GStatus::Syscall {
            return self.end_blocked(g, at, true);
        }
        self.acquire(at, None);
        let reason = self.names.string("preempted", &mut self.file);
        self.stop(g, at, spec::GO_STOP, (reason, 0), true);
    }

    /// The goroutine, which runs, waits or is only stopped, as `kind` says, for a reason and with a
    /// stack.
    pub(super) fn stop(
        &mut self,
        g: u32,
        at: At,
        kind: u8,
        (reason, stack): (u64, u64),
        added: bool,
    ) {
        self.state(g, at);
        self.put_or_add(at, kind, &[reason, stack], added);
        self.world.unbind(g);
        self.world.g(g).status = match kind {
            spec::GO_BLOCK => GStatus::Waiting,
            _ => GStatus::Runnable,
        };
    }

    /// The goroutine, which waits, becomes runnable.
    pub(super) fn unblock(&mut self, g: u32, at: At, stack: u64, added: bool) {
        self.state(g, at);
        let goroutine = self.world.g(g);
        goroutine.sequence += 1;
        goroutine.status = GStatus::Runnable;
        let args = [goroutine.id.get(), goroutine.sequence, stack];
        self.put_or_add(at, spec::GO_UNBLOCK, &args, added);
    }

    /// A goroutine that nothing was said of: in the first generation it has a status, later it can
    /// only have been made.
    fn introduce(&mut self, g: u32, to: GStatus, at: At) {
        if self.first {
            match to {
                GStatus::Running | GStatus::Syscall => {
                    self.vacate(at, g);
                    self.world.bind(g, at.m, to);
                }
                _ => self.world.g(g).status = to,
            }
            return self.put_status(g, at, 0, true);
        }
        let status = match to {
            GStatus::Waiting => GStatus::Waiting,
            _ => GStatus::Runnable,
        };
        self.create(g, status, at, (0, 0), true);
    }

    /// The goroutine, of which nothing was said, is made: runnable or waiting, with the stacks that it
    /// starts with and of who makes it.
    pub(super) fn create(
        &mut self,
        g: u32,
        status: GStatus,
        at: At,
        (start, stack): (u64, u64),
        added: bool,
    ) {
        let at = self.creator(at);
        let generation = self.file.generation;
        let goroutine = self.world.g(g);
        (goroutine.status, goroutine.sequence, goroutine.stated) = (status, 0, generation);
        let args = [goroutine.id.get(), start, stack];
        let kind = match status {
            GStatus::Waiting => spec::GO_CREATE_BLOCKED,
            _ => spec::GO_CREATE,
        };
        self.put_or_add(at, kind, &args, added);
    }

    /// Whether a goroutine can be made on the thread.
    pub(super) fn can_create(&self, m: u32) -> bool {
        let thread = self.world.threads.get(m as usize);
        thread.is_some_and(|thread| {
            let goroutine = self.world.goroutines.get(thread.g as usize);
            thread.p != NOBODY && goroutine.is_none_or(|g| g.status == GStatus::Running)
        })
    }

    /// A thread on which a goroutine can be made: that of `at`, if it can be.
    pub(super) fn creator(&mut self, at: At) -> At {
        let mut at = at;
        if !self.can_create(at.m) {
            let fits = |g: Option<GStatus>| g.is_none_or(|g| g == GStatus::Running);
            at = match self.world.thread_that(fits) {
                Some(m) => at.on(m),
                None if at.m == NO_SLOT => at.on(self.world.thread_with(UNNAMED_BY_P)),
                None => at,
            };
        }
        let current = self.world.m(at.m).g;
        if current != NOBODY && self.world.g(current).status != GStatus::Running {
            self.vacate(at, NOBODY);
        }
        self.acquire(at, None);
        if let Some(current) = self.goroutine_of(at) {
            self.state(current, at);
        }
        at
    }

    /// Slot of the event's goroutine: the one that it names, else that of the thread.
    pub(super) fn goroutine_or_of(&mut self, event: &Event, at: At) -> Option<u32> {
        match event.g {
            Some(id) => Some(self.world.goroutine(id)),
            None => self.goroutine_of(at),
        }
    }

    /// Slot of the goroutine of the thread.
    pub(super) fn goroutine_of(&mut self, at: At) -> Option<u32> {
        let g = self.world.m(at.m).g;
        (g != NOBODY).then_some(g)
    }

    // ---- contexts

    /// Whether the event's goroutine is on its thread, with a P.
    pub(super) fn in_user_code(&mut self, at: At, event: &Event) -> bool {
        if at.m == NO_SLOT {
            return false;
        }
        let (Some(id), thread) = (event.g, self.world.m(at.m)) else {
            return false;
        };
        let (g, p) = (thread.g, thread.p);
        let there = g != NOBODY && self.world.g(g).id == id;
        if !(there && p != NOBODY) {
            if event.p.is_none() || self.world.ended.contains(&id) {
                return false;
            }
            // The trace says so, and lacks what led to it.
            let slot = self.world.goroutine(id);
            self.bring(slot, GStatus::Running, at);
            self.acquire(at, event.p);
        }
        self.state_thread(at);
        true
    }

    /// The statuses of what the thread has are written.
    fn state_thread(&mut self, at: At) {
        let thread = self.world.m(at.m);
        let (g, p) = (thread.g, thread.p);
        if p != NOBODY {
            self.state_proc(p, at);
        }
        if g != NOBODY {
            self.state(g, at);
        }
    }

    /// Where an event that is about the whole program can be written: on its own thread, or on the
    /// first one that has a P, and a goroutine where it needs one.
    pub(super) fn anywhere(&mut self, at: At, needs_goroutine: bool) -> Option<At> {
        let thread = self.world.m(at.m);
        let fits = thread.p != NOBODY && (thread.g != NOBODY || !needs_goroutine);
        let found = if fits {
            Some(at)
        } else {
            let fits = |g: Option<GStatus>| g.is_some() || !needs_goroutine;
            self.world.thread_that(fits).map(|m| at.on(m))
        };
        if let Some(at) = found {
            self.state_thread(at);
        }
        found
    }
}

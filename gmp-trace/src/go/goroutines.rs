//! The rules of the ordering that are about goroutines.

use super::chunk::RawEvent;
use super::fault::Fault;
use super::order::{Order, Out, Step, Verdict};
use super::spec;
use super::states::{GStatus, Key, NOBODY, Thread};
use crate::event::{Body, GState, Preemption};
use crate::id::{GId, MId};
use crate::tables::{StackRef, Text};

/// What a goroutine was doing.
pub(super) fn status_of(
    goroutine: GId,
    state: GState,
    on_m: Option<MId>,
    stack: Option<StackRef>,
) -> Body {
    Body::GoStatus {
        goroutine,
        state,
        on_m,
        reason: None,
        object: None,
        site: None,
        created_at: None,
        creator: None,
        label: None,
        stack,
    }
}

impl Order {
    /// Says of a goroutine that was let through unknown what it must have been doing.
    #[cold]
    fn introduce(&mut self, slot: u32, state: GState, event: &RawEvent, out: &mut Out<'_>) {
        let goroutine = &self.goroutines[slot as usize];
        if goroutine.status == GStatus::Unknown {
            let nowhere = Thread {
                g: None,
                g_slot: NOBODY,
                p_slot: NOBODY,
                p: None,
                m: None,
            };
            let status = status_of(goroutine.id, state, None, None);
            out.give(event.time, &nowhere, status);
        }
    }

    pub(super) fn g_id(id: u64) -> Result<GId, Fault> {
        GId::new(id).ok_or(Fault::BadId {
            what: "goroutine",
            id,
        })
    }

    /// The slot of goroutine `id`; one that is not known yet is made, so that it can be waited for.
    #[inline(always)]
    fn wanted(&mut self, id: u64) -> Result<u32, Fault> {
        match self.find_goroutine(id) {
            Some(slot) => Ok(slot),
            None => Ok(self.goroutine(Order::g_id(id)?)),
        }
    }

    #[inline(always)]
    pub(super) fn bind(&mut self, thread: u32, slot: u32) {
        let id = self.goroutines[slot as usize].id;
        let thread = &mut self.threads[thread as usize];
        if thread.m.is_some() {
            (thread.g, thread.g_slot) = (Some(id), slot);
        }
    }

    #[inline(always)]
    pub(super) fn unbind(&mut self, thread: u32) {
        let thread = &mut self.threads[thread as usize];
        (thread.g, thread.g_slot) = (None, NOBODY);
    }

    /// Holds the state of the thread's goroutine against `wanted`.
    #[inline(always)]
    pub(super) fn expect(
        &mut self,
        context: &Thread,
        wanted: GStatus,
        out: &mut Out<'_>,
    ) -> Result<(), Fault> {
        let Some(goroutine) = self.goroutines.get(context.g_slot as usize) else {
            return Err(Fault::NeedsGoroutine);
        };
        if goroutine.status == wanted {
            return Ok(());
        }
        let id = goroutine.id.get();
        self.tolerate(
            match wanted {
                GStatus::Syscall => Fault::GoroutineNotInSyscall(id),
                _ => Fault::GoroutineNotRunning(id),
            },
            out,
        )
    }

    #[inline(always)]
    pub(super) fn go_start(
        &mut self,
        event: &RawEvent,
        thread: u32,
        force: bool,
        out: &mut Out<'_>,
    ) -> Verdict {
        let slot = self.wanted(event.args[0])?;
        let sequence = self.sequence(event.args[1]);
        let goroutine = &self.goroutines[slot as usize];
        let ready = goroutine.status == GStatus::Runnable && sequence.follows(goroutine.sequence);
        if !ready {
            if !force {
                return Ok(Step::Wait(Key::Goroutine(slot, sequence.number)));
            }
            self.introduce(slot, GState::Runnable, event, out);
        }
        // Field by field: what was just written in parts is slow to read as a whole.
        let held = &self.threads[thread as usize];
        let (m, p) = (held.m, held.p);
        if held.p_slot == NOBODY || held.g_slot != NOBODY {
            self.starts_nowhere(thread, out)?;
        }
        let goroutine = &mut self.goroutines[slot as usize];
        (goroutine.status, goroutine.sequence) = (GStatus::Running, sequence);
        let g = m.map(|_| goroutine.id);
        self.bind(thread, slot);
        out.give_to(event.time, (m, p, g), Body::GoStart { found: None });
        self.goroutine_changed(slot);
        Ok(Step::Done)
    }

    #[cold]
    fn starts_nowhere(&mut self, thread: u32, out: &mut Out<'_>) -> Result<(), Fault> {
        let context = self.threads[thread as usize];
        if context.m.is_none() {
            return Err(Fault::NeedsThread);
        }
        if context.p_slot == NOBODY {
            self.tolerate(Fault::NeedsProc, out)?;
        }
        if context.g_slot != NOBODY {
            self.tolerate(Fault::NoGoroutineExpected, out)?;
        }
        Ok(())
    }

    /// The thread's goroutine blocks, yields or ends.
    #[inline(always)]
    pub(super) fn go_stops(&mut self, event: &RawEvent, thread: u32, out: &mut Out<'_>) -> Verdict {
        let context = self.threads[thread as usize];
        self.in_user_code(&context, out)?;
        self.expect(&context, GStatus::Running, out)?;
        let slot = context.g_slot;
        let body = match event.kind {
            spec::GO_DESTROY => Body::GoExit { how: None },
            spec::GO_BLOCK => {
                let reason = self.text(event.args[0], out)?;
                let stack = self.stack(event.args[1], out)?;
                Body::GoPark {
                    reason,
                    object: None,
                    site: None,
                    stack,
                }
            }
            _ => {
                let reason = self.text(event.args[0], out)?;
                let stack = self.stack(event.args[1], out)?;
                match reason {
                    Text::PREEMPTED => Body::GoPreempted {
                        how: Preemption::Unknown,
                        stack,
                    },
                    _ => Body::GoYield { stack },
                }
            }
        };
        out.give(event.time, &context, body);
        self.unbind(thread);
        match event.kind {
            spec::GO_DESTROY => self.forget_goroutine(slot),
            spec::GO_BLOCK => self.goroutines[slot as usize].status = GStatus::Waiting,
            _ => self.goroutines[slot as usize].status = GStatus::Runnable,
        }
        self.goroutine_changed(slot);
        Ok(Step::Done)
    }

    #[inline(always)]
    pub(super) fn go_unblock(
        &mut self,
        event: &RawEvent,
        thread: u32,
        force: bool,
        out: &mut Out<'_>,
    ) -> Verdict {
        let slot = self.wanted(event.args[0])?;
        let sequence = self.sequence(event.args[1]);
        let goroutine = &self.goroutines[slot as usize];
        let ready = goroutine.status == GStatus::Waiting && sequence.follows(goroutine.sequence);
        if !ready {
            if !force {
                return Ok(Step::Wait(Key::Goroutine(slot, sequence.number)));
            }
            self.introduce(slot, GState::Waiting, event, out);
        }
        let goroutine = &mut self.goroutines[slot as usize];
        (goroutine.status, goroutine.sequence) = (GStatus::Runnable, sequence);
        let goroutine = goroutine.id;
        let stack = self.stack(event.args[2], out)?;
        let body = Body::GoReady {
            goroutine,
            by: None,
            stack,
        };
        out.give(event.time, &self.threads[thread as usize], body);
        self.goroutine_changed(slot);
        Ok(Step::Done)
    }

    pub(super) fn go_create(
        &mut self,
        event: &RawEvent,
        thread: u32,
        out: &mut Out<'_>,
    ) -> Verdict {
        let context = self.threads[thread as usize];
        if context.m.is_none() {
            return Err(Fault::NeedsThread);
        }
        if context.p_slot == NOBODY {
            self.tolerate(Fault::NeedsProc, out)?;
        }
        if context.g_slot != NOBODY {
            self.expect(&context, GStatus::Running, out)?;
        }
        let [new, start_stack, stack, _] = event.args;
        let child = Order::g_id(new)?;
        let runnable = event.kind == spec::GO_CREATE;
        let status = if runnable {
            GStatus::Runnable
        } else {
            GStatus::Waiting
        };
        let slot = self.made(child, status, out)?;
        let stack = self.stack(stack, out)?;
        let start_stack = self.stack(start_stack, out)?;
        let body = Body::GoCreate {
            child,
            site: None,
            stack,
            start_stack,
            runnable,
        };
        out.give(event.time, &context, body);
        self.goroutine_changed(slot);
        Ok(Step::Done)
    }

    /// A goroutine that must not have been there yet.
    pub(super) fn made(
        &mut self,
        id: GId,
        status: GStatus,
        out: &mut Out<'_>,
    ) -> Result<u32, Fault> {
        let slot = self.goroutine(id);
        if self.goroutines[slot as usize].status != GStatus::Unknown {
            self.tolerate(Fault::GoroutineExists(id.get()), out)?;
        }
        let sequence = self.sequence(0);
        let goroutine = &mut self.goroutines[slot as usize];
        (goroutine.status, goroutine.sequence) = (status, sequence);
        Ok(slot)
    }

    /// The thread's goroutine hands over to another one: three events in one.
    pub(super) fn go_switch(
        &mut self,
        event: &RawEvent,
        thread: u32,
        force: bool,
        out: &mut Out<'_>,
    ) -> Verdict {
        let context = self.threads[thread as usize];
        self.in_user_code(&context, out)?;
        self.expect(&context, GStatus::Running, out)?;
        let next = self.wanted(event.args[0])?;
        let sequence = self.sequence(event.args[1]);
        let goroutine = &mut self.goroutines[next as usize];
        let ready = goroutine.status == GStatus::Waiting && sequence.follows(goroutine.sequence);
        if !ready && !force {
            return Ok(Step::Wait(Key::Goroutine(next, sequence.number)));
        }
        let ready = Body::GoReady {
            goroutine: goroutine.id,
            by: None,
            stack: None,
        };
        out.give(event.time, &context, ready);
        let current = context.g_slot;
        if event.kind == spec::GO_SWITCH {
            let (reason, stack) = (Text::EMPTY, None);
            let park = Body::GoPark {
                reason,
                object: None,
                site: None,
                stack,
            };
            out.give(event.time, &context, park);
            self.goroutines[current as usize].status = GStatus::Waiting;
        } else {
            out.give(event.time, &context, Body::GoExit { how: None });
            self.forget_goroutine(current);
        }
        let goroutine = &mut self.goroutines[next as usize];
        (goroutine.status, goroutine.sequence) = (GStatus::Running, sequence);
        self.bind(thread, next);
        out.give(
            event.time,
            &self.threads[thread as usize],
            Body::GoStart { found: None },
        );
        self.goroutine_changed(current);
        self.goroutine_changed(next);
        Ok(Step::Done)
    }

    pub(super) fn go_status(
        &mut self,
        event: &RawEvent,
        thread: u32,
        out: &mut Out<'_>,
    ) -> Verdict {
        let [id, m, number, stack] = event.args;
        let Some(status) = GStatus::from_number(number) else {
            return Err(Fault::BadStatus {
                of: "goroutine",
                id,
                status: number,
            });
        };
        let stack = if event.kind == spec::GO_STATUS_STACK {
            stack
        } else {
            0
        };
        let stack = self.stack(stack, out)?;
        let slot = self.goroutine(Order::g_id(id)?);
        let was = self.goroutines[slot as usize].status;
        if was == GStatus::Unknown {
            if !self.first {
                self.tolerate(Fault::LateGoroutine(id), out)?;
            }
        } else if was != status {
            let (was, now) = (was.name(), status.name());
            self.tolerate(Fault::GoroutineStatus { g: id, was, now }, out)?;
        }
        let sequence = self.sequence(0);
        let goroutine = &mut self.goroutines[slot as usize];
        (goroutine.status, goroutine.sequence) = (status, sequence);
        let goroutine = goroutine.id;
        let mut context = self.threads[thread as usize];
        let mut on_m = None;
        match status {
            GStatus::Running => {
                on_m = context.m;
                self.bind(thread, slot);
            }
            GStatus::Syscall => {
                on_m = MId::new(m);
                context = self.in_syscall(slot, m, context, out)?;
            }
            _ => {}
        }
        let state = match status {
            GStatus::Running => GState::Running,
            GStatus::Syscall => GState::Syscall,
            GStatus::Waiting => GState::Waiting,
            _ => GState::Runnable,
        };
        let body = status_of(goroutine, state, on_m, stack);
        out.give(event.time, &context, body);
        self.goroutine_changed(slot);
        Ok(Step::Done)
    }

    /// The goroutine in `slot` is in a system call on thread `m`: the thread's context, in which the
    /// status is to be seen.
    fn in_syscall(
        &mut self,
        slot: u32,
        m: u64,
        context: Thread,
        out: &mut Out<'_>,
    ) -> Result<Thread, Fault> {
        let g = self.goroutines[slot as usize].id.get();
        let Some(m_id) = MId::new(m) else {
            self.tolerate(Fault::SyscallWithoutThread(g), out)?;
            return Ok(context);
        };
        let known = self.find_thread(m);
        let other = self.thread(m);
        let had = self.threads[other as usize];
        let has = had.g.map_or(0, GId::get);
        let here = context.m == Some(m_id);
        if has != g && if here { !self.first } else { known.is_some() } {
            self.tolerate(Fault::SyscallOnOtherThread { g, has }, out)?;
        }
        self.bind(other, slot);
        Ok(had)
    }
}

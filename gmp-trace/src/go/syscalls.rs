//! The rules of the ordering that are about system calls and threads of C.

use super::chunk::RawEvent;
use super::fault::Fault;
use super::goroutines::status_of;
use super::order::{Order, Out, Step, Verdict};
use super::states::{GStatus, Key, NOBODY, PStatus};
use crate::event::{Body, GState};

impl Order {
    pub(super) fn syscall_begin(
        &mut self,
        event: &RawEvent,
        thread: u32,
        out: &mut Out<'_>,
    ) -> Verdict {
        let context = self.threads[thread as usize];
        self.in_user_code(&context, out)?;
        self.expect(&context, GStatus::Running, out)?;
        if let Some(proc) = self.procs.get(context.p_slot as usize) {
            let (p, before) = (proc.id, proc.sequence);
            let sequence = self.sequence(event.args[0]);
            if !sequence.follows(before) {
                let expected = before.number.wrapping_add(1);
                let found = sequence.number;
                self.tolerate(Fault::ProcSequence { expected, found }, out)?;
            }
            let proc = &mut self.procs[context.p_slot as usize];
            debug_assert_eq!(proc.id, p);
            (proc.status, proc.sequence) = (PStatus::Syscall, sequence);
        }
        let stack = self.stack(event.args[1], out)?;
        self.goroutines[context.g_slot as usize].status = GStatus::Syscall;
        out.give(
            event.time,
            &context,
            Body::SyscallEnter { site: None, stack },
        );
        self.goroutine_changed(context.g_slot);
        if context.p_slot != NOBODY {
            self.proc_changed(context.p_slot);
        }
        Ok(Step::Done)
    }

    pub(super) fn syscall_end(
        &mut self,
        event: &RawEvent,
        thread: u32,
        out: &mut Out<'_>,
    ) -> Verdict {
        let context = self.threads[thread as usize];
        self.in_user_code(&context, out)?;
        self.expect(&context, GStatus::Syscall, out)?;
        if let Some(proc) = self.procs.get_mut(context.p_slot as usize) {
            let was = proc.status;
            let id = u64::from(proc.id.get());
            proc.status = PStatus::Running;
            if was != PStatus::Syscall {
                self.tolerate(Fault::ProcNotInSyscall(id), out)?;
            }
        }
        self.goroutines[context.g_slot as usize].status = GStatus::Running;
        out.give(event.time, &context, Body::SyscallExit);
        self.goroutine_changed(context.g_slot);
        if context.p_slot != NOBODY {
            self.proc_changed(context.p_slot);
        }
        Ok(Step::Done)
    }

    pub(super) fn syscall_end_blocked(
        &mut self,
        event: &RawEvent,
        thread: u32,
        force: bool,
        out: &mut Out<'_>,
    ) -> Verdict {
        let mut context = self.threads[thread as usize];
        if let Some(proc) = self.procs.get_mut(context.p_slot as usize)
            && proc.status == PStatus::Syscall
        {
            if !force {
                return Ok(Step::Wait(Key::Loss(context.p_slot)));
            }
            proc.status = PStatus::Idle;
            self.take_proc(thread);
            self.proc_changed(context.p_slot);
            context = self.threads[thread as usize];
        }
        if context.m.is_none() {
            return Err(Fault::NeedsThread);
        }
        self.expect(&context, GStatus::Syscall, out)?;
        out.give(event.time, &context, Body::SyscallExitBlocked);
        self.unbind(thread);
        self.goroutines[context.g_slot as usize].status = GStatus::Runnable;
        self.goroutine_changed(context.g_slot);
        Ok(Step::Done)
    }

    /// A thread of C calls into the program: its goroutine begins in a system call. Given as its
    /// making and its status.
    pub(super) fn create_syscall(
        &mut self,
        event: &RawEvent,
        thread: u32,
        out: &mut Out<'_>,
    ) -> Verdict {
        let context = self.threads[thread as usize];
        if context.m.is_none() {
            return Err(Fault::NeedsThread);
        }
        if context.g_slot != NOBODY {
            self.tolerate(Fault::NoGoroutineExpected, out)?;
        }
        let child = Order::g_id(event.args[0])?;
        let slot = self.made(child, GStatus::Syscall, out)?;
        self.bind(thread, slot);
        let (site, stack, start_stack) = (None, None, None);
        let create = Body::GoCreate {
            child,
            site,
            stack,
            start_stack,
            runnable: false,
        };
        out.give(event.time, &context, create);
        let status = status_of(child, GState::Syscall, context.m, None);
        out.give(event.time, &context, status);
        self.goroutine_changed(slot);
        Ok(Step::Done)
    }

    /// The goroutine of a thread of C ends. The thread's P, if it still has one, is given up too: the
    /// number of the thread can be used again.
    pub(super) fn destroy_syscall(
        &mut self,
        event: &RawEvent,
        thread: u32,
        out: &mut Out<'_>,
    ) -> Verdict {
        let mut context = self.threads[thread as usize];
        if context.m.is_none() {
            return Err(Fault::NeedsThread);
        }
        self.expect(&context, GStatus::Syscall, out)?;
        let p_slot = context.p_slot;
        if let Some(proc) = self.procs.get_mut(p_slot as usize) {
            let legal = proc.status == PStatus::Syscall;
            let victim = proc.id;
            proc.status = PStatus::Abandoned;
            if !legal {
                self.tolerate(Fault::ProcNotInSyscall(u64::from(victim.get())), out)?;
            }
            let steal = Body::ProcSteal {
                victim,
                from_m: context.m,
                why: None,
            };
            out.give(event.time, &context, steal);
            self.take_proc(thread);
            self.proc_changed(p_slot);
            context = self.threads[thread as usize];
        }
        out.give(event.time, &context, Body::GoExit { how: None });
        self.unbind(thread);
        self.forget_goroutine(context.g_slot);
        Ok(Step::Done)
    }
}

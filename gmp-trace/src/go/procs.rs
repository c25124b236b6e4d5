//! The rules of the ordering that are about Ps and the collector.

use super::chunk::RawEvent;
use super::fault::Fault;
use super::order::{Collector, Order, Out, Step, Verdict};
use super::spec;
use super::states::{Key, NOBODY, PStatus, Proc, Sequence};
use crate::event::{Body, PState, RetakeReason};
use crate::id::{MId, PId};

impl Order {
    /// The slot of P `id`, which is made where there is none.
    fn proc(&mut self, id: u64) -> Result<u32, Fault> {
        if let Some(slot) = self.proc_index.get(id) {
            return Ok(slot);
        }
        let p = u32::try_from(id).ok().and_then(PId::new);
        let Some(p) = p else {
            return Err(Fault::BadId { what: "P", id });
        };
        let slot = self.procs.len() as u32;
        self.procs.push(Proc {
            id: p,
            status: PStatus::Unknown,
            waiters: 0,
            sequence: Sequence::default(),
            sweeping: false,
            holder: NOBODY,
        });
        self.proc_index.insert(id, slot);
        Ok(slot)
    }

    pub(super) fn find_proc(&mut self, id: u64) -> Option<u32> {
        let slot = self.proc_index.get(id)?;
        (self.procs[slot as usize].status != PStatus::Unknown).then_some(slot)
    }

    /// The P in `slot` has changed: those who waited for that go on.
    #[inline(always)]
    pub(super) fn proc_changed(&mut self, slot: u32) {
        let proc = &mut self.procs[slot as usize];
        if proc.waiters != 0 {
            if proc.sequence.generation == self.generation {
                let next = proc.sequence.number.wrapping_add(1);
                proc.waiters -= self.waits.wake(Key::Proc(slot, next));
            }
            proc.waiters -= self.waits.wake(Key::Loss(slot));
        }
    }

    pub(super) fn take_proc(&mut self, thread: u32) {
        let thread = &mut self.threads[thread as usize];
        (thread.p, thread.p_slot) = (None, NOBODY);
    }

    fn give_proc(&mut self, thread: u32, slot: u32) {
        let proc = &mut self.procs[slot as usize];
        let held = &mut self.threads[thread as usize];
        if held.m.is_some() {
            proc.holder = thread;
            (held.p, held.p_slot) = (Some(proc.id), slot);
        }
    }

    fn holder_of(&self, slot: u32) -> Option<u32> {
        let holder = self.procs[slot as usize].holder;
        let thread = self.threads.get(holder as usize)?;
        (thread.p_slot == slot).then_some(holder)
    }

    pub(super) fn proc_start(
        &mut self,
        event: &RawEvent,
        thread: u32,
        force: bool,
        out: &mut Out<'_>,
    ) -> Verdict {
        let slot = self.proc(event.args[0])?;
        let sequence = self.sequence(event.args[1]);
        let held = self.threads[thread as usize].p_slot;
        let proc = &self.procs[slot as usize];
        if proc.status != PStatus::Idle || !sequence.follows(proc.sequence) || held != NOBODY {
            if !force {
                let other = held != NOBODY && held != slot;
                let key = if other {
                    Key::Loss(held)
                } else {
                    Key::Proc(slot, sequence.number)
                };
                return Ok(Step::Wait(key));
            }
            if let Some(holder) = self.holder_of(slot) {
                self.take_proc(holder);
            }
        }
        if self.threads[thread as usize].m.is_none() {
            return Err(Fault::NeedsThread);
        }
        let proc = &mut self.procs[slot as usize];
        (proc.status, proc.sequence) = (PStatus::Running, sequence);
        self.give_proc(thread, slot);
        out.give(event.time, &self.threads[thread as usize], Body::ProcStart);
        self.proc_changed(slot);
        Ok(Step::Done)
    }

    pub(super) fn proc_stop(
        &mut self,
        event: &RawEvent,
        thread: u32,
        out: &mut Out<'_>,
    ) -> Verdict {
        let context = self.threads[thread as usize];
        let slot = context.p_slot;
        if slot == NOBODY {
            return Err(Fault::NeedsProc);
        }
        let proc = &mut self.procs[slot as usize];
        let legal = matches!(proc.status, PStatus::Running | PStatus::Syscall);
        let id = u64::from(proc.id.get());
        proc.status = PStatus::Idle;
        if !legal {
            self.tolerate(Fault::ProcNotRunning(id), out)?;
        }
        out.give(event.time, &context, Body::ProcStop);
        self.take_proc(thread);
        self.proc_changed(slot);
        Ok(Step::Done)
    }

    pub(super) fn proc_steal(
        &mut self,
        event: &RawEvent,
        thread: u32,
        force: bool,
        out: &mut Out<'_>,
    ) -> Verdict {
        let [p, number, from, _] = event.args;
        let slot = self.proc(p)?;
        let sequence = self.sequence(number);
        let proc = &mut self.procs[slot as usize];
        let was = proc.status;
        let ready =
            matches!(was, PStatus::Syscall | PStatus::Abandoned) && sequence.follows(proc.sequence);
        if !ready && !force {
            return Ok(Step::Wait(Key::Proc(slot, number)));
        }
        let context = self.threads[thread as usize];
        if context.m.is_none() {
            return Err(Fault::NeedsThread);
        }
        (proc.status, proc.sequence) = (PStatus::Idle, sequence);
        let victim = proc.id;
        if was != PStatus::Abandoned {
            let holder = self.find_thread(from);
            if holder.is_none_or(|holder| self.threads[holder as usize].p_slot != slot) {
                self.tolerate(self.wrong_victim(p, from, holder), out)?;
            }
            let holder = if force { self.holder_of(slot) } else { holder };
            if let Some(holder) = holder
                && self.threads[holder as usize].p_slot == slot
            {
                self.take_proc(holder);
            }
        }
        let from_m = if was == PStatus::Abandoned {
            None
        } else {
            MId::new(from)
        };
        let why = Some(RetakeReason::Syscall);
        out.give(
            event.time,
            &context,
            Body::ProcSteal {
                victim,
                from_m,
                why,
            },
        );
        self.proc_changed(slot);
        Ok(Step::Done)
    }

    fn wrong_victim(&self, p: u64, m: u64, holder: Option<u32>) -> Fault {
        match holder {
            Some(_) => Fault::StealOfOtherProc { p, m },
            None => Fault::StealFromUnknownThread(m),
        }
    }

    pub(super) fn proc_status(
        &mut self,
        event: &RawEvent,
        thread: u32,
        out: &mut Out<'_>,
    ) -> Verdict {
        let [p, number, ..] = event.args;
        let Some(mut status) = PStatus::from_number(number) else {
            return Err(Fault::BadStatus {
                of: "P",
                id: p,
                status: number,
            });
        };
        let slot = self.proc(p)?;
        let was = self.procs[slot as usize].status;
        let mut context = self.threads[thread as usize];
        let known = was != PStatus::Unknown;
        if known && status == PStatus::Abandoned && was == PStatus::Syscall {
            // About to be stolen: what was known of its thread still holds.
            status = PStatus::Syscall;
            match self.holder_of(slot) {
                Some(holder) => context = self.threads[holder as usize],
                None => self.tolerate(Fault::AbandonedProcUnheld(p), out)?,
            }
        } else {
            if known && was != status {
                let fault = Fault::ProcStatus {
                    p,
                    was: was.name(),
                    now: status.name(),
                };
                self.tolerate(fault, out)?;
            }
            if matches!(status, PStatus::Running | PStatus::Syscall) {
                self.give_proc(thread, slot);
            }
        }
        let sequence = self.sequence(0);
        let proc = &mut self.procs[slot as usize];
        (proc.status, proc.sequence) = (status, sequence);
        let (state, on_m) = match status {
            PStatus::Running => (PState::Running, context.m),
            PStatus::Syscall => (PState::Syscall, context.m),
            _ => (PState::Idle, None),
        };
        let body = Body::ProcStatus {
            proc: proc.id,
            state,
            on_m,
        };
        out.give(event.time, &context, body);
        self.proc_changed(slot);
        Ok(Step::Done)
    }

    // ---- the collector

    pub(super) fn collector(
        &mut self,
        event: &RawEvent,
        thread: u32,
        force: bool,
        out: &mut Out<'_>,
    ) -> Verdict {
        let context = self.threads[thread as usize];
        let number = event.args[0];
        let begins = event.kind == spec::GC_BEGIN && self.collector == Collector::Undetermined;
        let seen = event.kind == spec::GC_ACTIVE && self.first;
        if begins || seen {
            if seen && self.collector != Collector::Undetermined {
                self.tolerate(Fault::GcFirstTwice, out)?;
            }
            self.collector_cycle = number;
        } else {
            if number != self.collector_sequence.wrapping_add(1) && !force {
                return Ok(Step::Wait(Key::Collector(number)));
            }
            let running = self.collector == Collector::Running;
            if running == (event.kind == spec::GC_BEGIN) {
                let fault = if running {
                    Fault::GcRunning
                } else {
                    Fault::GcNotRunning
                };
                self.tolerate(fault, out)?;
            }
            self.in_user_code(&context, out)?;
            if event.kind == spec::GC_BEGIN {
                self.collector_cycle = number;
            }
        }
        let cycle = self.collector_cycle;
        self.collector_sequence = number;
        self.collector = if event.kind == spec::GC_END {
            Collector::Resting
        } else {
            Collector::Running
        };
        let body = match event.kind {
            spec::GC_BEGIN => Body::GcBegin {
                cycle,
                stack: self.stack(event.args[1], out)?,
            },
            spec::GC_ACTIVE => Body::GcActive { cycle },
            _ => Body::GcEnd {
                cycle,
                pages: None,
                stacks: None,
            },
        };
        out.give(event.time, &context, body);
        self.waits.wake(Key::Collector(number.wrapping_add(1)));
        Ok(Step::Done)
    }
}

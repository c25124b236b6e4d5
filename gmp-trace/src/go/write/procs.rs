//! Ps: who holds them, as Go tells it.

use std::io::Write;

use super::Writer;
use super::legal::At;
use super::world::NO_SLOT;
use crate::event::{Body, Event, PState};
use crate::go::spec;
use crate::go::states::{NOBODY, PStatus};
use crate::id::{MId, PId};

impl<W: Write> Writer<W> {
    pub(super) fn proc(&mut self, event: &Event, at: At) -> bool {
        match event.body {
            Body::ProcStatus { proc, state, on_m } => {
                return self.proc_status(proc, state, on_m, at);
            }
            Body::ProcSteal {
                victim,
                from_m,
                why,
            } => {
                let to_itself = why.is_none() && from_m.is_some() && from_m == event.m;
                return self.proc_stolen(victim, from_m, to_itself, at);
            }
            _ => {}
        }
        let at = self.real(at, event);
        let Some(p) = event.p.map(|p| self.world.proc(p)) else {
            return false;
        };
        let held = self.world.m(at.m).p;
        if event.body == Body::ProcStart {
            if held == p {
                return false;
            }
            self.release(at);
            self.start_proc(p, at, false);
        } else {
            if held != p {
                return false;
            }
            self.state_proc(p, at);
            self.put(at, spec::PROC_STOP, &[]);
            self.world.take(p, PStatus::Idle);
        }
        true
    }

    fn proc_status(&mut self, proc: PId, state: PState, on_m: Option<MId>, at: At) -> bool {
        let p = self.world.proc(proc);
        let wanted = match (state, on_m) {
            (PState::Idle, _) | (_, None) => NOBODY,
            (_, Some(m)) => self.world.thread(Some(m)),
        };
        let generation = self.file.generation;
        let is = self.world.p(p);
        let (was, thread) = (is.status, is.thread);
        if was == PStatus::Unknown {
            if wanted == NOBODY {
                self.world.take(p, PStatus::Idle);
            } else {
                self.release(at.on(wanted));
                let status = match state {
                    PState::Syscall => PStatus::Syscall,
                    _ => PStatus::Running,
                };
                self.world.give(p, wanted, status);
            }
        } else if thread != wanted {
            match wanted {
                NOBODY => self.idle(p, at),
                m => self.acquire(at.on(m), Some(proc)),
            }
            return true;
        } else if is.stated == generation {
            return false;
        }
        let at = if wanted == NOBODY { at } else { at.on(wanted) };
        self.put_proc_status(p, at, false);
        true
    }

    fn proc_stolen(&mut self, victim: PId, from_m: Option<MId>, to_itself: bool, at: At) -> bool {
        let p = self.world.proc(victim);
        let proc = self.world.p(p);
        let (status, thread) = (proc.status, proc.thread);
        if to_itself && status == PStatus::Syscall {
            // Its goroutine ends, which says both.
            let at = at.on(thread);
            let Some(g) = self.goroutine_of(at) else {
                return false;
            };
            self.ended = Some(self.world.g(g).id);
            self.destroy_in_syscall(g, at);
            return true;
        }
        self.state_proc(p, at);
        match status {
            PStatus::Syscall | PStatus::Abandoned if at.m != NO_SLOT => {
                let from = match thread {
                    NOBODY => from_m.map_or(0, MId::get),
                    thread => self.world.m(thread).id,
                };
                let proc = self.world.p(p);
                proc.sequence += 1;
                let args = [u64::from(victim.get()), proc.sequence, from];
                self.put(at, spec::PROC_STEAL, &args);
            }
            // Go's format knows no taking of a P whose thread is not in a system call.
            PStatus::Running | PStatus::Syscall => self.put(at.on(thread), spec::PROC_STOP, &[]),
            _ => return false,
        }
        self.world.take(p, PStatus::Idle);
        true
    }
}

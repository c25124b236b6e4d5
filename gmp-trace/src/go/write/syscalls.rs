//! System calls, and goroutines of threads of C, which live in one.

use std::io::Write;

use super::Writer;
use super::legal::At;
use super::time;
use crate::event::{Body, Event};
use crate::go::spec;
use crate::go::states::{GStatus, NOBODY, PStatus};
use crate::id::GId;
use crate::tables::Tables;

impl<W: Write> Writer<W> {
    pub(super) fn syscall(&mut self, event: &Event, at: At, tables: &Tables) -> bool {
        if let Body::SyscallImplicit { goroutine, on_m } = event.body {
            let at = at.on(self.world.thread(Some(on_m)));
            let g = self.world.goroutine(goroutine);
            self.bring(g, GStatus::Running, at);
            self.begin_syscall(g, at, 0, false);
            return true;
        }
        let at = self.real(at, event);
        let Some(g) = self.goroutine_or_of(event, at) else {
            return false;
        };
        if let Body::SyscallEnter { site, stack } = event.body {
            self.bring(g, GStatus::Running, at);
            self.acquire(at, event.p);
            let stack = self.stack_or_site(stack, site, tables);
            self.begin_syscall(g, at, stack, false);
            return true;
        }
        self.bring(g, GStatus::Syscall, at);
        if event.body == Body::SyscallExitBlocked {
            self.end_blocked(g, at, false);
            return true;
        }
        let p = self.world.m(at.m).p;
        if p != NOBODY && self.world.p(p).status == PStatus::Syscall {
            self.end_syscall(g, at, false);
        } else {
            // It goes on with another P than the one that it had.
            self.end_blocked(g, at, false);
            self.start(g, at, event.p, true);
        }
        true
    }

    /// A thread of C calls into the program.
    pub(super) fn create_in_syscall(&mut self, event: &Event, child: GId) {
        let at = At {
            m: self.world.thread(event.m),
            time: time(event.time),
        };
        let at = self.real(at, event);
        let g = self.world.goroutine(child);
        if self.world.g(g).status != GStatus::Unknown {
            return self.bring(g, GStatus::Syscall, at);
        }
        self.vacate(at, g);
        self.world.bind(g, at.m, GStatus::Syscall);
        let generation = self.file.generation;
        let goroutine = self.world.g(g);
        (goroutine.sequence, goroutine.stated) = (0, generation);
        self.put(at, spec::GO_CREATE_SYSCALL, &[child.get()]);
    }

    /// The goroutine ends in a system call; a P that its thread still has is left behind.
    pub(super) fn destroy_in_syscall(&mut self, g: u32, at: At) {
        self.state(g, at);
        let p = self.world.m(at.m).p;
        if p != NOBODY {
            self.state_proc(p, at);
            if self.world.p(p).status == PStatus::Syscall {
                self.world.take(p, PStatus::Abandoned);
            } else {
                self.release(at);
            }
        }
        self.put(at, spec::GO_DESTROY_SYSCALL, &[]);
        self.world.forget(g);
    }
}

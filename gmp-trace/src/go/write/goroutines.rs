//! Goroutines: what they do, as Go tells it.

use std::io::Write;

use super::Writer;
use super::legal::At;
use super::names::Shape;
use crate::event::{Body, Event, GState};
use crate::go::spec;
use crate::go::states::{GStatus, NOBODY};
use crate::tables::{Tables, Text};

impl<W: Write> Writer<W> {
    pub(super) fn goroutine_starts(&mut self, event: &Event, at: At) -> bool {
        let Some(id) = event.g else { return false };
        let at = self.real(at, event);
        let g = self.world.goroutine(id);
        self.bring(g, GStatus::Runnable, at);
        self.start(g, at, event.p, false);
        true
    }

    pub(super) fn goroutine_stops(&mut self, event: &Event, at: At, tables: &Tables) -> bool {
        let at = self.real(at, event);
        let Some(g) = self.goroutine_or_of(event, at) else {
            return false;
        };
        let goroutine = self.world.g(g);
        let in_syscall = goroutine.status == GStatus::Syscall && goroutine.thread == at.m;
        match event.body {
            Body::GoExit { .. } if in_syscall => {
                self.destroy_in_syscall(g, at);
                return true;
            }
            // Back from a call that nobody announced, without a P.
            Body::GoYield { .. } | Body::GoPreempted { .. } if in_syscall => {
                self.end_blocked(g, at, false);
                return true;
            }
            _ => {}
        }
        self.bring(g, GStatus::Running, at);
        self.acquire(at, event.p);
        self.state(g, at);
        let (kind, reason, stack) = match event.body {
            Body::GoPark {
                reason,
                site,
                stack,
                ..
            } => {
                let reason = match word_of_go(reason).filter(|_| !self.of_go) {
                    Some(word) => self.names.string(word, &mut self.file),
                    None => self.text(reason, tables),
                };
                let stack = self.stack_or_site(stack, site, tables);
                (spec::GO_BLOCK, reason, stack)
            }
            Body::GoPreempted { stack, .. } => {
                let stack = self.stack(stack.map(Shape::Stack), tables);
                (spec::GO_STOP, self.text(Text::PREEMPTED, tables), stack)
            }
            Body::GoYield { stack } => {
                let stack = self.stack(stack.map(Shape::Stack), tables);
                (spec::GO_STOP, self.text(Text::GOSCHED, tables), stack)
            }
            _ => {
                self.end_ranges(g, at);
                self.put(at, spec::GO_DESTROY, &[]);
                self.world.forget(g);
                return true;
            }
        };
        self.stop(g, at, kind, (reason, stack), false);
        true
    }

    /// A goroutine that ends has no range open.
    fn end_ranges(&mut self, g: u32, at: At) {
        for _ in 0..self.world.g(g).stops().len() {
            self.add(at, spec::STW_END, &[]);
        }
        if self.world.g(g).assists() {
            self.add(at, spec::GC_MARK_ASSIST_END, &[]);
        }
    }

    pub(super) fn goroutine_made(&mut self, event: &Event, at: At, tables: &Tables) -> bool {
        let Body::GoCreate {
            child,
            site,
            stack,
            start_stack,
            runnable,
        } = event.body
        else {
            return false;
        };
        let g = self.world.goroutine(child);
        if self.world.g(g).status != GStatus::Unknown {
            return false;
        }
        let start = start_stack.map(Shape::Stack).or(site.map(Shape::Start));
        let start = self.stack(start, tables);
        let status = match runnable {
            true => GStatus::Runnable,
            false => GStatus::Waiting,
        };
        if self.first && !self.can_create(at.m) {
            // Before there is a P: it is among what was there when the trace began.
            self.world.g(g).status = status;
            self.put_status(g, at, start, false);
            return true;
        }
        let stack = stack.map(Shape::Stack).or(site.map(Shape::Made));
        let stack = self.stack(stack, tables);
        self.create(g, status, at, (start, stack), false);
        true
    }

    pub(super) fn goroutine_status(&mut self, event: &Event, at: At, tables: &Tables) -> bool {
        let Body::GoStatus {
            goroutine,
            state,
            on_m,
            site,
            created_at,
            stack,
            ..
        } = event.body
        else {
            return false;
        };
        let shape = match created_at.filter(|_| !self.of_go) {
            Some(start) => Some(Shape::Status(stack, site, start)),
            None => stack.map(Shape::Stack).or(site.map(Shape::Place)),
        };
        let stack = self.stack(shape, tables);
        let g = self.world.goroutine(goroutine);
        let status = match state {
            GState::Runnable => GStatus::Runnable,
            GState::Running => GStatus::Running,
            GState::Syscall => GStatus::Syscall,
            GState::Waiting => GStatus::Waiting,
        };
        let at = match status {
            GStatus::Running | GStatus::Syscall => {
                let known = self.world.g(g).thread;
                at.on(match on_m.or(event.m) {
                    Some(m) => self.world.thread(Some(m)),
                    None if known != NOBODY => known,
                    None => self.unnamed_thread(g),
                })
            }
            _ => at,
        };
        let generation = self.file.generation;
        let is = self.world.g(g);
        let (was, thread, stated) = (is.status, is.thread, is.stated == generation);
        let executing = matches!(status, GStatus::Running | GStatus::Syscall);
        if was == status && (!executing || thread == at.m) {
            if stated {
                return false;
            }
        } else if was == GStatus::Unknown && self.first {
            if executing {
                self.vacate(at, g);
                self.world.bind(g, at.m, status);
            } else {
                self.world.g(g).status = status;
            }
        } else {
            self.bring(g, status, at);
            return true;
        }
        self.put_status(g, at, stack, false);
        true
    }
}

/// What Go's tools look for by a certain word gets that word.
fn word_of_go(reason: Text) -> Option<&'static str> {
    match reason {
        Text::IO_WAIT => Some("network"),
        Text::SEMACQUIRE => Some("sync"),
        Text::JOIN => Some("sync.join"),
        Text::GC_WAIT => Some("wait until GC ends"),
        _ => None,
    }
}

//! The threads (Ms): their states, and which goroutine each runs.

use super::Machine;
use super::sink::{Sink, ThreadSpan};
use super::state::ThreadState;
use crate::diag::Kind;
use gmp_trace::Event;
use gmp_trace::id::{GId, MId};
use gmp_trace::time::Nanos;

/// What the machine knows of one thread.
#[derive(Clone, Debug)]
pub(super) struct Thread {
    pub(super) id: MId,
    pub(super) state: ThreadState,
    pub(super) since: Nanos,
    born: Nanos,
    accounted: i64,
    pub(super) alive: bool,
    /// The goroutine that it runs, and its slot.
    pub(super) running: Option<(GId, usize)>,
}

impl<S: Sink> Machine<S> {
    /// The index of `id`; a thread not met before has been in an unknown state since the trace
    /// began.
    #[inline]
    pub(super) fn thread_index(&mut self, id: MId) -> usize {
        match self.thread_ids.get(id.get()) {
            Some(index) => index,
            None => self.add_thread(id, self.begin),
        }
    }

    fn add_thread(&mut self, id: MId, born: Nanos) -> usize {
        self.threads.push(Thread {
            id,
            state: ThreadState::Unknown,
            since: born,
            born,
            accounted: 0,
            alive: true,
            running: None,
        });
        self.thread_ids.add(id.get())
    }

    /// Thread `child` is made.
    pub(super) fn thread_made(&mut self, child: MId, event: &Event) {
        if self.thread_ids.get(child.get()).is_none() {
            let index = self.add_thread(child, event.time.max(self.begin));
            self.threads[index].state = ThreadState::Parked;
        }
    }

    /// Thread `index` turns to `to` at `event`.
    #[inline]
    pub(super) fn thread_turns(&mut self, index: usize, event: &Event, to: ThreadState) {
        let thread = &mut self.threads[index];
        if thread.state == to {
            return;
        }
        let mut now = event.time;
        if now < thread.since {
            self.counts.add_step_back(thread.since.since(now), event);
            now = thread.since;
        }
        if !thread.alive {
            // The number of a thread that ended is used by a new one.
            thread.alive = true;
            thread.born = now;
            thread.since = now;
            thread.accounted = 0;
        }
        self.close_thread(index, now, false);
        self.threads[index].state = to;
    }

    /// Thread `index` gives a sign of life that says nothing about its state: it is awake.
    #[inline]
    pub(super) fn thread_heard(&mut self, index: usize, event: &Event) {
        if matches!(
            self.threads[index].state,
            ThreadState::Unknown | ThreadState::Parked
        ) {
            self.thread_turns(index, event, ThreadState::Scheduler);
        }
    }

    /// Thread `target` is woken.
    pub(super) fn thread_woken(&mut self, target: MId, event: &Event) {
        let index = self.thread_index(target);
        if self.threads[index].state == ThreadState::Parked {
            self.thread_turns(index, event, ThreadState::Scheduler);
        }
    }

    /// Thread `index` ends.
    pub(super) fn thread_ends(&mut self, index: usize, event: &Event) {
        let now = event.time.max(self.threads[index].since);
        self.close_thread(index, now, false);
        self.check_thread(index);
        let thread = &mut self.threads[index];
        thread.alive = false;
        thread.state = ThreadState::Unknown;
        thread.running = None;
    }

    #[inline]
    fn close_thread(&mut self, index: usize, now: Nanos, open: bool) {
        let thread = &mut self.threads[index];
        if thread.since < now {
            self.sink.thread_span(&ThreadSpan {
                thread: thread.id,
                index,
                state: thread.state,
                begin: thread.since,
                end: now,
                open,
            });
            thread.accounted += now.0 - thread.since.0;
            thread.since = now;
        }
    }

    fn check_thread(&mut self, index: usize) {
        let thread = &self.threads[index];
        if thread.accounted != thread.since.0 - thread.born.0 {
            self.counts.add(Kind::PartitionBroken, None);
        }
    }

    /// The goroutine that thread `on` runs.
    pub(super) fn goroutine_on(&self, on: Option<MId>) -> Option<GId> {
        let index = self.thread_ids.get(on?.get())?;
        self.threads[index].running.map(|(id, _)| id)
    }

    /// The trace ends at `end`: every living thread's last span.
    pub(super) fn finish_threads(&mut self, end: Nanos) {
        for index in 0..self.threads.len() {
            if self.threads[index].alive {
                self.close_thread(index, end, true);
                self.check_thread(index);
            }
        }
    }
}

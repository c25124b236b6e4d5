//! What a goroutine did, and for how long, added up in the way of Go's summarizer.

use std::collections::BTreeMap;

/// A state in Go's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    NotExist,
    Undetermined,
    Runnable,
    Running,
    Syscall,
    Waiting,
    Idle,
}

/// A goroutine.
#[derive(Clone, Debug, Default)]
pub(crate) struct Goroutine {
    pub(crate) name: String,
    pub(crate) creation: i64,
    pub(crate) start: Option<i64>,
    pub(crate) end: Option<i64>,
    pub(crate) exec: i64,
    pub(crate) sched_wait: i64,
    pub(crate) syscall: i64,
    pub(crate) syscall_block: i64,
    pub(crate) block: BTreeMap<String, i64>,
    pub(crate) ranges: BTreeMap<String, i64>,
    pub(crate) total: i64,
    pub(crate) regions: i64,
    /// Events that had a part in the figures.
    pub(crate) events: i64,
    pub(super) ended: bool,
    last_start: Option<i64>,
    last_runnable: Option<i64>,
    last_block: Option<(i64, String)>,
    last_syscall: Option<i64>,
    pub(super) last_syscall_block: Option<i64>,
    pub(super) last_range: BTreeMap<String, i64>,
    pub(super) open_regions: Vec<u64>,
    pub(super) stops: Vec<String>,
}

impl Goroutine {
    /// One that exists since `creation`, or is known since then.
    pub(super) fn new(creation: i64) -> Goroutine {
        Goroutine {
            creation,
            ..Goroutine::default()
        }
    }

    pub(super) fn leave(&mut self, from: State, time: i64) {
        match from {
            State::Running => {
                self.exec += time - self.last_start.take().expect("was running");
            }
            State::Waiting => {
                if let Some((since, reason)) = self.last_block.take() {
                    *self.block.entry(reason).or_default() += time - since;
                }
            }
            State::Runnable => {
                if let Some(since) = self.last_runnable.take() {
                    self.sched_wait += time - since;
                }
            }
            State::Syscall => {
                if let Some(since) = self.last_syscall.take() {
                    match self.last_syscall_block.take() {
                        Some(lost) => {
                            self.syscall_block += time - lost;
                            self.syscall += lost - since;
                        }
                        None => self.syscall += time - since,
                    }
                }
            }
            _ => {}
        }
    }

    pub(super) fn enter(&mut self, to: State, time: i64, reason: &str) {
        match to {
            State::Running => {
                self.last_start = Some(time);
                self.start.get_or_insert(time);
            }
            State::Runnable => self.last_runnable = Some(time),
            State::Waiting if reason != "forever" => {
                self.last_block = Some((time, reason.to_owned()));
            }
            State::Waiting | State::NotExist => {
                self.end = Some(time);
                self.finish(time);
            }
            State::Syscall => self.last_syscall = Some(time),
            _ => {}
        }
    }

    pub(super) fn range_ends(&mut self, name: &str, time: i64) {
        if let Some(since) = self.last_range.remove(name) {
            *self.ranges.entry(name.to_owned()).or_default() += time - since;
        }
    }

    /// The goroutine or the trace ends.
    pub(super) fn finish(&mut self, time: i64) {
        self.ended = true;
        self.total = time - self.creation;
        if let Some(since) = self.last_start.take() {
            self.exec += time - since;
        }
        if let Some(since) = self.last_runnable.take() {
            self.sched_wait += time - since;
        }
        if let Some((since, reason)) = self.last_block.take() {
            *self.block.entry(reason).or_default() += time - since;
        }
        if let Some(since) = self.last_syscall.take() {
            self.syscall += time - since;
        }
        if let Some(since) = self.last_syscall_block.take() {
            self.sched_wait += time - since;
        }
        for (name, since) in std::mem::take(&mut self.last_range) {
            *self.ranges.entry(name).or_default() += time - since;
        }
        let system = self.name.is_empty()
            || (self.name != "runtime.main" && self.name.starts_with("runtime."));
        if !system {
            self.regions += self.open_regions.len() as i64;
        }
        self.open_regions.clear();
    }
}

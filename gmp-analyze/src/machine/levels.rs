//! How many goroutines and Ps are in each state at one moment.

use super::state::{GoroutineState, ProcState};

/// How many goroutines and Ps are in each state now.
#[derive(Clone, Debug, Default)]
pub struct Levels {
    goroutines: [u32; GoroutineState::COUNT],
    procs: [u32; ProcState::COUNT],
    /// The largest number of goroutines alive at one moment so far.
    peak: u32,
}

impl Levels {
    /// How many goroutines are in `state`.
    #[inline]
    pub fn goroutines(&self, state: GoroutineState) -> u32 {
        self.goroutines[state as usize]
    }

    /// How many Ps are in `state`.
    #[inline]
    pub fn procs(&self, state: ProcState) -> u32 {
        self.procs[state as usize]
    }

    /// How many goroutines live.
    pub fn alive(&self) -> u32 {
        self.goroutines.iter().sum()
    }

    /// The largest number of goroutines that lived at one moment so far.
    pub fn peak(&self) -> u32 {
        self.peak
    }

    #[inline]
    pub(super) fn goroutine_born(&mut self, state: GoroutineState) {
        self.goroutines[state as usize] += 1;
        self.peak = self.peak.max(self.alive());
    }

    #[inline]
    pub(super) fn goroutine_turns(&mut self, from: GoroutineState, to: GoroutineState) {
        self.goroutines[from as usize] -= 1;
        self.goroutines[to as usize] += 1;
    }

    #[inline]
    pub(super) fn goroutine_dies(&mut self, state: GoroutineState) {
        self.goroutines[state as usize] -= 1;
    }

    #[inline]
    pub(super) fn proc_appears(&mut self, state: ProcState) {
        self.procs[state as usize] += 1;
    }

    #[inline]
    pub(super) fn proc_turns(&mut self, from: ProcState, to: ProcState) {
        self.procs[from as usize] -= 1;
        self.procs[to as usize] += 1;
    }
}

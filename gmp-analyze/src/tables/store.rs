//! The columns of each table while the trace is read, and in the order of the schema afterwards.

use super::columns::{NO_WORD, NULL, Values, Words};
use crate::analysis::{latency, names};
use crate::input::TraceFacts;
use crate::machine::{Cause, GoroutineState, ProcState};
use gmp_trace::event::{ExitHow, StealFrom};
use std::rc::Rc;

/// Words that several tables have.
#[derive(Debug)]
pub(super) struct Dictionaries {
    /// Functions and positions by number of the place.
    pub(super) functions: Words,
    pub(super) positions: Words,
    /// Wait reasons by their number.
    pub(super) reasons: Words,
}

/// Fixed words by number.
fn fixed<'a>(words: impl IntoIterator<Item = &'a str>) -> Words {
    let words = words.into_iter();
    words.map(|word| Some(word.to_owned())).collect()
}

fn goroutine_states() -> Words {
    fixed(GoroutineState::ALL.iter().map(|state| state.name()))
}

/// Two columns of words with the same numbers.
fn twice(numbers: Vec<u32>, first: &Words, second: &Words) -> [Values; 2] {
    let numbers: Rc<[u32]> = numbers.into();
    [first, second].map(|words| Values::Words(words.clone(), numbers.clone()))
}

fn words(numbers: Vec<u32>, words: Words) -> Values {
    Values::Words(words, numbers.into())
}

/// `to - from`, null where one of them is.
fn differences(to: &[i64], from: &[i64]) -> Values {
    let pairs = to.iter().zip(from);
    let difference = |(&to, &from)| match (to, from) {
        (NULL, _) | (_, NULL) => NULL,
        _ => to - from,
    };
    Values::Numbers(pairs.map(difference).collect())
}

#[derive(Debug, Default)]
pub(super) struct Goroutines {
    pub(super) goroutine: Vec<i64>,
    pub(super) made_at: Vec<u32>,
    pub(super) creator: Vec<i64>,
    pub(super) begin: Vec<i64>,
    pub(super) end: Vec<i64>,
    pub(super) existed: Vec<Option<bool>>,
    pub(super) alive: Vec<Option<bool>>,
    pub(super) exit: Vec<u32>,
    /// By the state's number.
    pub(super) time: [Vec<i64>; GoroutineState::COUNT],
}

impl Goroutines {
    pub(super) fn into_columns(mut self, dictionaries: &Dictionaries) -> Vec<Values> {
        let Dictionaries {
            functions,
            positions,
            ..
        } = dictionaries;
        let [function, made_at] = twice(self.made_at, functions, positions);
        let exits = [
            ExitHow::Returned,
            ExitHow::Panicked,
            ExitHow::Goexit,
            ExitHow::Cancelled,
        ];
        let mut columns = vec![
            Values::Numbers(self.goroutine),
            function,
            made_at,
            Values::Numbers(self.creator),
            Values::Numbers(self.begin),
            Values::Numbers(self.end),
            Values::Flags(self.existed),
            Values::Flags(self.alive),
            words(self.exit, fixed(exits.map(names::exit))),
        ];
        let order = [
            GoroutineState::Running,
            GoroutineState::Runnable,
            GoroutineState::Waiting,
            GoroutineState::Syscall,
            GoroutineState::SyscallWithoutP,
            GoroutineState::Unknown,
        ];
        let times = order.map(|state| std::mem::take(&mut self.time[state as usize]));
        columns.extend(times.map(Values::Numbers));
        columns
    }
}

#[derive(Debug, Default)]
pub(super) struct GSpans {
    pub(super) goroutine: Vec<i64>,
    pub(super) made_at: Vec<u32>,
    pub(super) state: Vec<u32>,
    pub(super) begin: Vec<i64>,
    pub(super) end: Vec<i64>,
    pub(super) p: Vec<i64>,
    pub(super) reason: Vec<u32>,
    pub(super) object: Vec<i64>,
    pub(super) at: Vec<u32>,
    pub(super) open: Vec<Option<bool>>,
}

impl GSpans {
    pub(super) fn into_columns(self, dictionaries: &Dictionaries) -> Vec<Values> {
        let Dictionaries {
            functions,
            positions,
            reasons,
        } = dictionaries;
        let [at_function, at] = twice(self.at, functions, positions);
        let duration = differences(&self.end, &self.begin);
        vec![
            Values::Numbers(self.goroutine),
            words(self.made_at, functions.clone()),
            words(self.state, goroutine_states()),
            Values::Numbers(self.begin),
            Values::Numbers(self.end),
            duration,
            Values::Numbers(self.p),
            words(self.reason, reasons.clone()),
            Values::Numbers(self.object),
            at_function,
            at,
            Values::Flags(self.open),
        ]
    }
}

#[derive(Debug, Default)]
pub(super) struct PSpans {
    pub(super) p: Vec<i64>,
    pub(super) state: Vec<u32>,
    pub(super) begin: Vec<i64>,
    pub(super) end: Vec<i64>,
    pub(super) goroutine: Vec<i64>,
    pub(super) m: Vec<i64>,
    pub(super) open: Vec<Option<bool>>,
}

impl PSpans {
    pub(super) fn into_columns(self) -> Vec<Values> {
        let states = fixed(ProcState::ALL.iter().map(|state| state.name()));
        let duration = differences(&self.end, &self.begin);
        vec![
            Values::Numbers(self.p),
            words(self.state, states),
            Values::Numbers(self.begin),
            Values::Numbers(self.end),
            duration,
            Values::Numbers(self.goroutine),
            Values::Numbers(self.m),
            Values::Flags(self.open),
        ]
    }
}

#[derive(Debug, Default)]
pub(super) struct Wakes {
    pub(super) start: Vec<i64>,
    pub(super) goroutine: Vec<i64>,
    pub(super) made_at: Vec<u32>,
    pub(super) p: Vec<i64>,
    pub(super) ready: Vec<i64>,
    pub(super) cause: Vec<u32>,
    pub(super) waker: Vec<i64>,
    pub(super) found: Vec<u32>,
}

impl Wakes {
    pub(super) fn into_columns(self, dictionaries: &Dictionaries) -> Vec<Values> {
        let causes = fixed(Cause::ALL.iter().map(|cause| cause.name()));
        let found = fixed(latency::ALL_FOUND.map(|found| latency::found_name(Some(found))));
        let latency = differences(&self.start, &self.ready);
        vec![
            Values::Numbers(self.start),
            Values::Numbers(self.goroutine),
            words(self.made_at, dictionaries.functions.clone()),
            Values::Numbers(self.p),
            Values::Numbers(self.ready),
            latency,
            words(self.cause, causes),
            Values::Numbers(self.waker),
            words(self.found, found),
        ]
    }
}

#[derive(Debug, Default)]
pub(super) struct Steals {
    pub(super) time: Vec<i64>,
    pub(super) thief: Vec<i64>,
    pub(super) m: Vec<i64>,
    pub(super) victim: Vec<i64>,
    pub(super) what: Vec<u32>,
    pub(super) goroutines: Vec<i64>,
}

impl Steals {
    pub(super) fn into_columns(self) -> Vec<Values> {
        let what = [StealFrom::Ring, StealFrom::Runnext, StealFrom::Timers];
        let what = what.map(|what| match what {
            StealFrom::Ring => "ring",
            StealFrom::Runnext => "runnext",
            StealFrom::Timers => "timers",
        });
        vec![
            Values::Numbers(self.time),
            Values::Numbers(self.thief),
            Values::Numbers(self.m),
            Values::Numbers(self.victim),
            words(self.what, fixed(what)),
            Values::Numbers(self.goroutines),
        ]
    }
}

/// What is said of the trace as a whole.
#[derive(Clone, Copy, Debug)]
pub(super) struct Totals {
    pub(super) span: i64,
    pub(super) events: u64,
    pub(super) lost: u64,
}

impl Totals {
    pub(super) fn into_columns(self, facts: &TraceFacts) -> Vec<Values> {
        let text = |text: &str| words(vec![0], fixed([text]));
        let number = |value: u64| Values::Numbers(vec![super::columns::number(value)]);
        let started = facts.started_at.map_or(NULL, |time| time.0);
        vec![
            text(&facts.source),
            text(&facts.format),
            Values::Numbers(vec![started]),
            Values::Numbers(vec![self.span]),
            number(facts.bytes),
            number(self.events),
            number(self.lost),
            number(facts.generations),
            Values::Flags(vec![facts.finished]),
        ]
    }
}

/// The number of a word that there may be none of.
#[inline]
pub(super) fn word(number: Option<u32>) -> u32 {
    number.unwrap_or(NO_WORD)
}

//! Which goroutines are looked at: what `--filter` asks for.
//!
//! A filter is about goroutines. Ps, threads, steals and stops are those of the whole trace; on a P that a
//! goroutine runs which is not looked at, nobody in particular runs.

use super::names;
use crate::machine::{
    GoroutineBirth, GoroutineDeath, GoroutineSpan, Levels, Place, ProcSpan, Sink, ThreadSpan, Wake,
};
use gmp_trace::id::GId;
use gmp_trace::tables::Tables;
use gmp_trace::time::Nanos;
use gmp_trace::{Body, Event};
use rustc_hash::{FxHashMap, FxHashSet};
use std::str::FromStr;

/// One condition on a goroutine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// The name of its start function has this in it.
    Function(String),
    /// The place where it was made, as `file:line:column`, has this in it.
    MadeAt(String),
    /// It has this number.
    Goroutine(GId),
}

impl FromStr for Condition {
    type Err = String;

    fn from_str(text: &str) -> Result<Condition, String> {
        let (key, value) = text.split_once('=').unwrap_or((text, ""));
        match (key, value) {
            ("function" | "made_at" | "goroutine", "") => {
                Err(format!("expected a value after {key}=, found none"))
            }
            ("function", value) => Ok(Condition::Function(value.to_owned())),
            ("made_at", value) => Ok(Condition::MadeAt(value.to_owned())),
            ("goroutine", value) => match value.parse().ok().and_then(GId::new) {
                Some(goroutine) => Ok(Condition::Goroutine(goroutine)),
                None => Err(format!("expected the number of a goroutine, found {value}")),
            },
            _ => Err(format!(
                "expected function=, made_at= or goroutine=, found {text}"
            )),
        }
    }
}

/// Conditions on goroutines: one of each kind that is there has to hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter(Vec<Condition>);

impl Filter {
    /// A filter of `conditions`; without any it lets everything through.
    pub fn new(conditions: &[Condition]) -> Filter {
        Filter(conditions.to_vec())
    }

    /// True where it lets everything through.
    pub fn is_everything(&self) -> bool {
        self.0.is_empty()
    }

    fn holds(&self, kind: impl Fn(&Condition) -> Option<bool>) -> bool {
        let mut of_kind = self.0.iter().filter_map(kind).peekable();
        of_kind.peek().is_none() || of_kind.any(|holds| holds)
    }

    fn takes_place(&self, tables: &Tables, made_at: Place) -> bool {
        let function = names::function(tables, made_at);
        let position = names::position(tables, made_at);
        let of_function = |condition: &Condition| match condition {
            Condition::Function(part) => Some(function.contains(part)),
            _ => None,
        };
        let of_position = |condition: &Condition| match condition {
            Condition::MadeAt(part) => Some(position.contains(part)),
            _ => None,
        };
        self.holds(of_function) && self.holds(of_position)
    }

    fn takes_number(&self, goroutine: GId) -> bool {
        self.holds(|condition| match condition {
            Condition::Goroutine(number) => Some(*number == goroutine),
            _ => None,
        })
    }
}

/// Gives a sink what is about goroutines that a filter takes, and what is about none.
#[derive(Debug)]
pub struct Only<S> {
    filter: Filter,
    sink: S,
    /// Whether goroutines made at a place are taken.
    places: FxHashMap<Place, bool>,
    /// Whether the goroutine in a slot is taken.
    slots: Vec<bool>,
    /// Goroutines that live and are taken.
    living: FxHashSet<GId>,
    begun: bool,
}

impl<S> Only<S> {
    /// Gives `sink` what `filter` takes.
    pub fn new(filter: Filter, sink: S) -> Only<S> {
        Only {
            filter,
            sink,
            places: FxHashMap::default(),
            slots: Vec::new(),
            living: FxHashSet::default(),
            begun: false,
        }
    }

    /// The names that `event`, which is next, brings. Names of goroutines are asked for here, because
    /// spans do not know them.
    #[inline]
    pub fn learn(&mut self, event: &Event, tables: &Tables) {
        if let Some(made_at) = Place::of_birth(event)
            && !self.places.contains_key(&made_at)
        {
            let takes = self.filter.takes_place(tables, made_at);
            self.places.insert(made_at, takes);
        }
    }

    /// The sink.
    pub fn into_sink(self) -> S {
        self.sink
    }

    fn takes(&self, goroutine: Option<GId>) -> bool {
        goroutine.is_some_and(|goroutine| self.living.contains(&goroutine))
    }
}

impl<S: Sink> Sink for Only<S> {
    #[inline]
    fn event(&mut self, event: &Event) {
        let is_sample = matches!(event.body, Body::CpuSample { .. });
        // The first event tells when the trace begins, whoever it is about.
        if !is_sample || !self.begun || self.takes(event.g) {
            self.sink.event(event);
        }
        self.begun = true;
    }

    #[inline]
    fn elapsed(&mut self, from: Nanos, to: Nanos, levels: &Levels) {
        self.sink.elapsed(from, to, levels);
    }

    fn goroutine_begin(&mut self, birth: &GoroutineBirth) {
        // A goroutine that is met without a status has no name.
        let unnamed = || self.filter.takes_place(&Tables::new(), Place::Unknown);
        let place = self.places.get(&birth.made_at).copied();
        let takes = place.unwrap_or_else(unnamed) && self.filter.takes_number(birth.goroutine);
        if birth.slot >= self.slots.len() {
            self.slots.resize(birth.slot + 1, false);
        }
        self.slots[birth.slot] = takes;
        if takes {
            self.living.insert(birth.goroutine);
            self.sink.goroutine_begin(birth);
        }
    }

    #[inline]
    fn goroutine_span(&mut self, span: &GoroutineSpan) {
        if self.slots[span.slot] {
            self.sink.goroutine_span(span);
        }
    }

    fn goroutine_end(&mut self, death: &GoroutineDeath) {
        if self.slots[death.slot] {
            self.sink.goroutine_end(death);
        }
        // At the end of the trace the spans of Ps, which name goroutines, come after their deaths.
        if !death.alive {
            self.living.remove(&death.goroutine);
        }
    }

    #[inline]
    fn wake(&mut self, wake: &Wake) {
        if self.slots[wake.slot] {
            self.sink.wake(wake);
        }
    }

    #[inline]
    fn proc_span(&mut self, span: &ProcSpan) {
        let goroutine = span.goroutine.filter(|_| self.takes(span.goroutine));
        self.sink.proc_span(&ProcSpan { goroutine, ..*span });
    }

    #[inline]
    fn thread_span(&mut self, span: &ThreadSpan) {
        self.sink.thread_span(span);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gmp_trace::tables::Site;

    #[test]
    fn conditions_are_read() {
        let read = |text: &str| text.parse::<Condition>();
        assert_eq!(
            read("function=main.a=b"),
            Ok(Condition::Function("main.a=b".to_owned()))
        );
        assert_eq!(
            read("made_at=main.rs:7"),
            Ok(Condition::MadeAt("main.rs:7".to_owned()))
        );
        let seven = GId::new(7).expect("a number");
        assert_eq!(read("goroutine=7"), Ok(Condition::Goroutine(seven)));
        for (text, says) in [
            ("goroutine=0", "the number of a goroutine, found 0"),
            ("goroutine=x", "the number of a goroutine, found x"),
            ("function=", "a value after function="),
            (
                "p=3",
                "expected function=, made_at= or goroutine=, found p=3",
            ),
            ("main", "found main"),
        ] {
            let error = read(text).expect_err(text);
            assert!(error.contains(says), "{text}: {error}");
        }
    }

    #[test]
    fn one_of_each_kind_has_to_hold() {
        let mut tables = Tables::new();
        let function = tables.intern_text("main::worker");
        let file = tables.intern_text("src/main.rs");
        let place = Place::Site(tables.intern_site(Site {
            function,
            file,
            line: 7,
            column: 5,
        }));
        let filter = |conditions: &[&str]| {
            let conditions = conditions.iter().map(|text| text.parse().expect("one"));
            Filter(conditions.collect())
        };
        for (conditions, takes) in [
            (&[][..], true),
            (&["function=worker"], true),
            (&["function=reader"], false),
            (&["function=reader", "function=worker"], true),
            (&["function=worker", "made_at=main.rs:7"], true),
            (&["function=worker", "made_at=main.rs:8"], false),
            (&["goroutine=4"], true),
        ] {
            let filter = filter(conditions);
            assert_eq!(filter.takes_place(&tables, place), takes, "{conditions:?}");
        }
        let numbers = filter(&["goroutine=4", "goroutine=5", "function=worker"]);
        let takes = |number| numbers.takes_number(GId::new(number).expect("a number"));
        assert_eq!([3, 4, 5, 6].map(takes), [false, true, true, false]);
        assert!(!numbers.takes_place(&tables, Place::Unknown));
    }
}

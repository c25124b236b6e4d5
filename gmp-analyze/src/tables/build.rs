//! The sink that fills columns.

use super::columns::{Columns, Interner, NO_WORD, NULL, number};
use super::schema::Table;
use super::store::{Dictionaries, GSpans, Goroutines, PSpans, Steals, Totals, Wakes, word};
use crate::analysis::names;
use crate::analysis::window::Window;
use crate::input::TraceFacts;
use crate::machine::{
    GoroutineBirth, GoroutineDeath, GoroutineSpan, GoroutineState, Place, ProcSpan, ProcState,
    Sink, Wake,
};
use gmp_trace::event::{Found, StealFrom};
use gmp_trace::id::{GId, MId, PId};
use gmp_trace::tables::{Tables, Text};
use gmp_trace::time::Nanos;
use gmp_trace::{Body, Event};
use std::mem::take;

/// One living goroutine.
#[derive(Clone, Copy, Debug, Default)]
struct Living {
    /// The number of the place where it was made.
    made_at: u32,
    creator: Option<GId>,
    existed: bool,
    /// Time in each state, by the state's number.
    time: [i64; GoroutineState::COUNT],
}

/// Fills the columns of those tables that were asked for.
#[derive(Debug)]
pub struct Builder {
    wanted: Vec<Table>,
    /// By the trace's clock, once it has begun.
    window: Window,
    /// Rows that there is room for.
    most: u64,
    /// The time of the first event.
    begin: Option<Nanos>,
    end: Nanos,
    rows: u64,
    /// The time of the first row for which there was no room.
    full_at: Option<Nanos>,
    events: u64,
    lost: u64,
    /// The goroutine of the last row of `wakes`, while the event lasts.
    starting: Option<GId>,
    /// Places: where goroutines are made, wait, enter system calls.
    places: Interner<Place>,
    reasons: Interner<Text>,
    living: Vec<Living>,
    goroutines: Goroutines,
    g_spans: GSpans,
    p_spans: PSpans,
    wakes: Wakes,
    steals: Steals,
}

/// Why there are no tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLarge {
    /// How many rows there would be.
    pub rows: u64,
    /// When the first row came for which there is no room, from the begin of the trace.
    pub full_at: Nanos,
}

fn id_of(id: Option<GId>) -> i64 {
    id.map_or(NULL, |id| number(id.get()))
}

fn p_of(id: Option<PId>) -> i64 {
    id.map_or(NULL, |id| number(id.get()))
}

fn m_of(id: Option<MId>) -> i64 {
    id.map_or(NULL, |id| number(id.get()))
}

impl Builder {
    /// Fills the columns of the tables `wanted` within `window`. Of a span that the window cuts, the part
    /// inside is a row; a start of a goroutine is a row, with its whole latency, where it is inside. There
    /// is room for `most` rows of all tables together.
    pub fn new(wanted: &[Table], window: Window, most: u64) -> Builder {
        Builder {
            wanted: wanted.to_vec(),
            window,
            most,
            begin: None,
            end: Nanos::ZERO,
            rows: 0,
            full_at: None,
            events: 0,
            lost: 0,
            starting: None,
            places: Interner::default(),
            reasons: Interner::default(),
            living: Vec::new(),
            goroutines: Goroutines::default(),
            g_spans: GSpans::default(),
            p_spans: PSpans::default(),
            wakes: Wakes::default(),
            steals: Steals::default(),
        }
    }

    #[inline]
    fn wants(&self, table: Table) -> bool {
        self.wanted.contains(&table)
    }

    /// `time` from the begin of the trace.
    #[inline]
    fn since_begin(&self, time: Nanos) -> i64 {
        time.since(self.begin.unwrap_or(time)).0
    }

    /// One more row of `table`, which `time` completes; true where it is wanted and there is room for it.
    #[inline]
    fn row(&mut self, table: Table, time: Nanos) -> bool {
        if !self.wants(table) {
            return false;
        }
        self.rows += 1;
        if self.rows > self.most {
            self.full_at.get_or_insert(time);
            return false;
        }
        true
    }

    fn steal(&mut self, event: &Event, victim: PId, n: u32, what: StealFrom) {
        if self.window.holds(event.time) && self.row(Table::Steals, event.time) {
            let time = self.since_begin(event.time);
            let steals = &mut self.steals;
            steals.time.push(time);
            steals.thief.push(p_of(event.p));
            steals.m.push(m_of(event.m));
            steals.victim.push(number(victim.get()));
            steals.what.push(what as u32);
            let taken = match what {
                StealFrom::Ring | StealFrom::Runnext => i64::from(n),
                StealFrom::Timers => NULL,
            };
            steals.goroutines.push(taken);
        }
    }

    /// A goroutine begins to run; what made it runnable comes with [`Sink::wake`], where it is known.
    fn start(&mut self, event: &Event, found: Option<Found>) {
        if self.window.holds(event.time) && self.row(Table::Wakes, event.time) {
            self.starting = event.g;
            let time = self.since_begin(event.time);
            let wakes = &mut self.wakes;
            wakes.start.push(time);
            wakes.goroutine.push(id_of(event.g));
            wakes.made_at.push(NO_WORD);
            wakes.p.push(p_of(event.p));
            wakes.ready.push(NULL);
            wakes.cause.push(NO_WORD);
            wakes.waker.push(NULL);
            wakes
                .found
                .push(found.map_or(NO_WORD, |found| found as u32));
        }
    }

    /// The goroutine in `slot` is what the last row of `wakes` is about.
    fn name_start(&mut self, slot: usize) {
        let made_at = self.living[slot].made_at;
        if let Some(last) = self.wakes.made_at.last_mut() {
            *last = made_at;
        }
    }

    /// The tables, of a trace that says `facts` of itself.
    ///
    /// # Errors
    ///
    /// When there is no room for all rows.
    pub fn finish(mut self, tables: &Tables, facts: &TraceFacts) -> Result<Vec<Columns>, TooLarge> {
        if let Some(at) = self.full_at {
            return Err(TooLarge {
                rows: self.rows,
                full_at: Nanos(self.since_begin(at)),
            });
        }
        let known = |text: String| (!text.is_empty()).then_some(text);
        let dictionaries = Dictionaries {
            functions: self.places.words(|at| known(names::function(tables, at))),
            positions: self.places.words(|at| known(names::position(tables, at))),
            reasons: self
                .reasons
                .words(|reason| known(tables.text(reason).to_owned())),
        };
        let totals = Totals {
            span: self.since_begin(self.end),
            events: self.events,
            lost: self.lost,
        };
        let wanted = std::mem::take(&mut self.wanted);
        let built = |table| Columns {
            table,
            columns: match table {
                Table::Goroutines => take(&mut self.goroutines).into_columns(&dictionaries),
                Table::GSpans => take(&mut self.g_spans).into_columns(&dictionaries),
                Table::PSpans => take(&mut self.p_spans).into_columns(),
                Table::Wakes => take(&mut self.wakes).into_columns(&dictionaries),
                Table::Steals => take(&mut self.steals).into_columns(),
                Table::Trace => totals.into_columns(facts),
            },
        };
        Ok(wanted.into_iter().map(built).collect())
    }
}

impl Sink for Builder {
    #[inline]
    fn event(&mut self, event: &Event) {
        if self.begin.is_none() {
            self.begin = Some(event.time);
            self.window = self.window.of_trace(event.time);
            self.end = event.time;
        }
        self.events += 1;
        self.end = self.end.max(event.time);
        self.starting = None;
        match event.body {
            Body::GoStart { found } => self.start(event, found),
            Body::Steal { victim, n, what } => self.steal(event, victim, n, what),
            Body::Loss { events } => self.lost = self.lost.saturating_add(events),
            _ => {}
        }
    }

    fn goroutine_begin(&mut self, birth: &GoroutineBirth) {
        if birth.slot >= self.living.len() {
            self.living.resize(birth.slot + 1, Living::default());
        }
        self.living[birth.slot] = Living {
            made_at: self.places.number(birth.made_at),
            creator: birth.creator,
            existed: birth.existed,
            time: Default::default(),
        };
    }

    #[inline]
    fn goroutine_span(&mut self, span: &GoroutineSpan) {
        if self.starting == Some(span.goroutine) {
            self.name_start(span.slot);
        }
        let Some((begin, end)) = self.window.clip(span.begin, span.end) else {
            return;
        };
        self.living[span.slot].time[span.state as usize] += end.0 - begin.0;
        if !self.row(Table::GSpans, end) {
            return;
        }
        let waits = span.state == GoroutineState::Waiting;
        let has_p = matches!(
            span.state,
            GoroutineState::Running | GoroutineState::Syscall
        );
        let has_place = waits
            || matches!(
                span.state,
                GoroutineState::Syscall | GoroutineState::SyscallWithoutP
            );
        let reason =
            (waits && span.reason != Text::EMPTY).then(|| self.reasons.number(span.reason));
        let at = has_place.then(|| self.places.number(span.place));
        let object = span.object.filter(|_| waits);
        let (begin, end) = (self.since_begin(begin), self.since_begin(end));
        let spans = &mut self.g_spans;
        spans.goroutine.push(number(span.goroutine.get()));
        spans.made_at.push(self.living[span.slot].made_at);
        spans.state.push(span.state as u32);
        spans.begin.push(begin);
        spans.end.push(end);
        spans.p.push(p_of(span.proc.filter(|_| has_p)));
        spans.reason.push(word(reason));
        spans
            .object
            .push(object.map_or(NULL, |object| number(object.0)));
        spans.at.push(word(at));
        spans.open.push(Some(span.open));
    }

    fn goroutine_end(&mut self, death: &GoroutineDeath) {
        let lived = self.window.clip(death.born, death.time).is_some();
        if !lived || !self.row(Table::Goroutines, death.time) {
            return;
        }
        let living = self.living[death.slot];
        let (begin, end) = (self.since_begin(death.born), self.since_begin(death.time));
        let rows = &mut self.goroutines;
        rows.goroutine.push(number(death.goroutine.get()));
        rows.made_at.push(living.made_at);
        rows.creator.push(id_of(living.creator));
        rows.begin.push(begin);
        rows.end.push(end);
        rows.existed.push(Some(living.existed));
        rows.alive.push(Some(death.alive));
        rows.exit.push(word(death.how.map(|how| how as u32)));
        for (column, time) in rows.time.iter_mut().zip(living.time) {
            column.push(time);
        }
    }

    #[inline]
    fn wake(&mut self, wake: &Wake) {
        if self.starting != Some(wake.goroutine) {
            return;
        }
        let (ready, start) = (self.since_begin(wake.ready), self.since_begin(wake.start));
        let wakes = &mut self.wakes;
        let last = wakes.start.len() - 1;
        wakes.start[last] = start;
        wakes.ready[last] = ready;
        wakes.cause[last] = wake.cause as u32;
        wakes.waker[last] = id_of(wake.waker);
    }

    #[inline]
    fn proc_span(&mut self, span: &ProcSpan) {
        let Some((begin, end)) = self.window.clip(span.begin, span.end) else {
            return;
        };
        if !self.row(Table::PSpans, end) {
            return;
        }
        let (begin, end) = (self.since_begin(begin), self.since_begin(end));
        let has_goroutine = matches!(span.state, ProcState::Running | ProcState::Syscall);
        let spans = &mut self.p_spans;
        spans.p.push(number(span.proc.get()));
        spans.state.push(span.state as u32);
        spans.begin.push(begin);
        spans.end.push(end);
        spans
            .goroutine
            .push(id_of(span.goroutine.filter(|_| has_goroutine)));
        spans.m.push(m_of(span.thread));
        spans.open.push(Some(span.open));
    }
}

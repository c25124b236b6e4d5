//! The order of cause: which record may go next, given what happened to its goroutine and its P.
//!
//! Records of one M are in order already. A record about somebody else's goroutine or P carries a
//! number, and may go once the number before it went and the state fits; until then its M waits on
//! that goroutine or P, and is woken by its next change, not by looking.
//!
//! # Rules
//!
//! 1. A start with number n goes when the goroutine is runnable and its last number is n - 1; a
//!    ready when it waits. Without a number the order of the M's records is enough.
//! 2. A P's start with number n goes when the P is idle, its last number is n - 1, and this M has no
//!    P; a P's steal when its last number is n - 1 and its M still has it (in a system call, if the
//!    steal says so). The M that enters a system call takes a number of its P without writing it, so
//!    that it is certain out of which of several system calls the P was taken.
//! 3. An exit from a system call without a P goes once the P was taken, and so does running on
//!    without a P.
//! 4. An implicit system call goes while its goroutine runs.
//!
//! Otherwise, with clocks that disagree, a goroutine could run before it was made ready. Where
//! nothing can go, something is missing: the earliest record is let through and counted.

use std::collections::{HashMap, VecDeque};

use crate::anomaly::{Anomalies, AnomalyKind};
use crate::event::RetakeReason;
use crate::id::{GId, PId};
use crate::native::cursor::Opened;
use crate::native::states::{Entries, Entry, GoState, NOBODY, ProcState};

/// What a waiting M waits for: a change of a goroutine or of a P that lets this number through
/// ([`ANY`]: some other change).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Key {
    Goroutine(u64, u32),
    Proc(u32, u32),
}

/// The number of those who wait for a state, not for a number.
pub(super) const ANY: u32 = u32::MAX;

/// What an M holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub(super) p: Option<PId>,
    pub(super) g: Option<GId>,
    /// Where the entry of `g` is; only of use while there is a `g`.
    place: u32,
}

impl Held {
    /// Nothing.
    pub(super) const NOTHING: Held = Held {
        p: None,
        g: None,
        place: NOBODY,
    };
}

/// Who applies a record, and how.
pub(super) struct Turn<'a> {
    /// Its cursor.
    pub(super) cursor: u32,
    /// Nothing else can go: do it whatever the state.
    pub(super) force: bool,
    /// Where to count what does not fit.
    pub(super) anomalies: &'a mut Anomalies,
    /// Where its block begins.
    pub(super) offset: u64,
}

impl Turn<'_> {
    fn mismatch(&mut self) {
        if !self.force {
            self.anomalies
                .add(AnomalyKind::StateMismatch, self.offset, 0);
        }
    }
}

/// What is known of a generation's goroutines, Ps and Ms.
#[derive(Debug)]
pub(super) struct Order {
    goroutines: Entries<GoState>,
    procs: Entries<ProcState>,
    /// What each cursor's M holds.
    pub(super) held: Vec<Held>,
    waiting: HashMap<Key, VecDeque<(u32, u64)>>,
    /// How often each cursor stopped waiting: an item in `waiting` with another number is stale.
    tickets: Vec<u64>,
    /// Cursors that may go on now.
    pub(super) woken: Vec<u32>,
}

impl Order {
    /// Nothing known, for so many cursors.
    pub(super) fn new(cursors: usize) -> Order {
        Order {
            goroutines: Entries::new(GoState::Unknown),
            procs: Entries::new(ProcState::Unknown),
            held: vec![Held::NOTHING; cursors],
            waiting: HashMap::new(),
            tickets: vec![0; cursors],
            woken: Vec::new(),
        }
    }

    /// Lets `cursor` wait for `key`; returns the ticket of the wait.
    pub(super) fn wait(&mut self, key: Key, cursor: u32) -> u64 {
        match key {
            Key::Goroutine(g, _) => {
                let place = self.goroutines.place(g);
                self.goroutines.at(place).waiting += 1;
            }
            Key::Proc(p, _) => {
                let place = self.procs.place(u64::from(p));
                self.procs.at(place).waiting += 1;
            }
        }
        let ticket = self.tickets[cursor as usize];
        self.waiting
            .entry(key)
            .or_default()
            .push_back((cursor, ticket));
        ticket
    }

    /// Whether `cursor` still waits with `ticket`.
    pub(super) fn is_waiting(&self, cursor: u32, ticket: u64) -> bool {
        self.tickets[cursor as usize] == ticket
    }

    /// `cursor` waits no longer.
    pub(super) fn end_wait(&mut self, cursor: u32) {
        self.tickets[cursor as usize] += 1;
    }

    /// Wakes the first of those who wait for `key`; returns how many are no longer in its list. Who
    /// finds that it still cannot go waits again, so that no change costs more than a constant.
    fn wake(&mut self, key: Key) -> u32 {
        let Some(list) = self.waiting.get_mut(&key) else {
            return 0;
        };
        let mut gone = 0;
        while let Some((cursor, ticket)) = list.pop_front() {
            gone += 1;
            if self.tickets[cursor as usize] == ticket {
                self.tickets[cursor as usize] += 1;
                self.woken.push(cursor);
                break;
            }
        }
        if list.is_empty() {
            self.waiting.remove(&key);
        }
        gone
    }

    #[inline(always)]
    fn goroutine_changed(&mut self, g: u64, place: u32) {
        if self.goroutines.at(place).waiting > 0 {
            self.wake_for_goroutine(g, place);
        }
    }

    #[cold]
    fn wake_for_goroutine(&mut self, g: u64, place: u32) {
        let entry = *self.goroutines.at(place);
        let woken = match entry.state {
            GoState::Runnable | GoState::Waiting => {
                self.wake(Key::Goroutine(g, entry.seq.wrapping_add(1)))
            }
            GoState::Running => self.wake(Key::Goroutine(g, ANY)),
            _ => 0,
        };
        self.goroutines.at(place).waiting -= woken;
    }

    fn proc_changed(&mut self, p: u64, place: u32) {
        let entry = *self.procs.at(place);
        if entry.waiting == 0 {
            return;
        }
        let p = p as u32;
        let mut woken = self.wake(Key::Proc(p, entry.seq.wrapping_add(1)));
        if entry.state == ProcState::Idle {
            woken += self.wake(Key::Proc(p, ANY));
        }
        self.procs.at(place).waiting -= woken;
    }

    /// A block of `cursor` that was just opened says what its M holds. It counts where nothing else
    /// is known.
    pub(super) fn opened(&mut self, cursor: u32, opened: Opened) {
        if !(opened.first || opened.after_gap) {
            return;
        }
        let place = opened.g.map_or(NOBODY, |g| self.goroutines.place(g.get()));
        let held = Held {
            p: opened.p,
            g: opened.g,
            place,
        };
        self.held[cursor as usize] = held;
        if !opened.after_gap {
            return;
        }
        if let Some(g) = held.g.map(GId::get) {
            let place = self.goroutines.place(g);
            let entry = self.goroutines.at(place);
            (entry.state, entry.on) = (GoState::Running, cursor);
            self.goroutine_changed(g, place);
        }
        if let Some(p) = held.p.map(|p| u64::from(p.get())) {
            let place = self.procs.place(p);
            let entry = self.procs.at(place);
            (entry.state, entry.on) = (ProcState::Running, cursor);
            self.proc_changed(p, place);
        }
    }

    /// `g` was made.
    pub(super) fn create(&mut self, g: u64, turn: &mut Turn<'_>) {
        let place = self.goroutines.place(g);
        let entry = self.goroutines.at(place);
        if entry.state != GoState::Unknown {
            turn.mismatch();
        }
        (entry.state, entry.seq, entry.on) = (GoState::Runnable, 0, NOBODY);
        self.goroutine_changed(g, place);
    }

    /// The state of `g` when the generation began.
    pub(super) fn go_status(&mut self, g: u64, state: GoState, on: u32, turn: &mut Turn<'_>) {
        let place = self.goroutines.place(g);
        let entry = self.goroutines.at(place);
        if entry.state != GoState::Unknown {
            return turn.mismatch();
        }
        (entry.state, entry.seq, entry.on) = (state, 0, on);
        self.goroutine_changed(g, place);
    }

    /// Whether a record with number `seq` may go, with its number brought up; the state before must
    /// be `from`.
    #[inline(always)]
    fn admit(
        entry: &mut Entry<GoState>,
        from: GoState,
        g: u64,
        seq: Option<u32>,
        turn: &mut Turn<'_>,
    ) -> Result<(), Key> {
        let next = entry.seq.wrapping_add(1);
        match seq {
            None => {
                if entry.state != from {
                    turn.mismatch();
                }
                entry.seq = next;
            }
            Some(seq) => {
                if (seq != next || entry.state != from) && !turn.force {
                    return Err(Key::Goroutine(g, seq));
                }
                entry.seq = seq;
            }
        }
        Ok(())
    }

    /// `g` begins to run on `turn`'s M.
    #[inline(always)]
    pub(super) fn start(
        &mut self,
        g: u64,
        seq: Option<u32>,
        turn: &mut Turn<'_>,
    ) -> Result<(), Key> {
        let place = self.goroutines.place(g);
        let entry = self.goroutines.at(place);
        Self::admit(entry, GoState::Runnable, g, seq, turn)?;
        (entry.state, entry.on) = (GoState::Running, turn.cursor);
        let held = &mut self.held[turn.cursor as usize];
        if held.g.is_some() {
            turn.mismatch();
        }
        (held.g, held.place) = (GId::new(g), place);
        self.goroutine_changed(g, place);
        Ok(())
    }

    /// `turn`'s goroutine stops, to be in state `to`, and `g` begins to run in its place.
    #[inline(always)]
    pub(super) fn switch(
        &mut self,
        to: GoState,
        g: u64,
        seq: Option<u32>,
        turn: &mut Turn<'_>,
    ) -> Result<(), Key> {
        let place = self.goroutines.place(g);
        let held = self.held[turn.cursor as usize];
        if held.g.is_some() && held.place == place {
            // It yields to itself: it stops before it starts.
            self.leave(to, turn);
            return self.start(g, seq, turn);
        }
        let entry = self.goroutines.at(place);
        Self::admit(entry, GoState::Runnable, g, seq, turn)?;
        (entry.state, entry.on) = (GoState::Running, turn.cursor);
        self.leave(to, turn);
        let held = &mut self.held[turn.cursor as usize];
        (held.g, held.place) = (GId::new(g), place);
        self.goroutine_changed(g, place);
        Ok(())
    }

    /// `turn`'s goroutine stops running, to be in state `to`.
    #[inline(always)]
    pub(super) fn leave(&mut self, to: GoState, turn: &mut Turn<'_>) {
        let held = &mut self.held[turn.cursor as usize];
        let place = held.place;
        let Some(g) = held.g.take().map(GId::get) else {
            return turn.mismatch();
        };
        let entry = self.goroutines.at(place);
        if entry.on != turn.cursor || entry.state != GoState::Running {
            turn.mismatch();
            if entry.on != turn.cursor && entry.state != GoState::Unknown {
                return;
            }
        }
        (entry.state, entry.on) = (to, NOBODY);
        self.goroutine_changed(g, place);
    }

    /// `g` stops waiting.
    #[inline(always)]
    pub(super) fn ready(
        &mut self,
        g: u64,
        seq: Option<u32>,
        turn: &mut Turn<'_>,
    ) -> Result<(), Key> {
        let place = self.goroutines.place(g);
        let entry = self.goroutines.at(place);
        Self::admit(entry, GoState::Waiting, g, seq, turn)?;
        (entry.state, entry.on) = (GoState::Runnable, NOBODY);
        self.goroutine_changed(g, place);
        Ok(())
    }

    /// `turn`'s goroutine goes from `from` to `to` without leaving its M, and its P likewise.
    pub(super) fn syscall(&mut self, enter: bool, turn: &mut Turn<'_>) {
        let (from, to, proc_to) = if enter {
            (GoState::Running, GoState::Syscall, ProcState::Syscall)
        } else {
            (GoState::Syscall, GoState::Running, ProcState::Running)
        };
        let held = self.held[turn.cursor as usize];
        if let Some(p) = held.p.map(|p| u64::from(p.get())) {
            let place = self.procs.place(p);
            let entry = self.procs.at(place);
            if entry.on == turn.cursor {
                entry.state = proc_to;
                entry.seq = entry.seq.wrapping_add(u32::from(enter));
                self.proc_changed(p, place);
            }
        } else if !enter {
            turn.mismatch();
        }
        let Some(g) = held.g.map(GId::get) else {
            return turn.mismatch();
        };
        let place = self.goroutines.place(g);
        let entry = self.goroutines.at(place);
        if entry.state != from || entry.on != turn.cursor {
            turn.mismatch();
        }
        (entry.state, entry.on) = (to, turn.cursor);
        self.goroutine_changed(g, place);
    }

    /// `turn`'s M comes to a point that it reaches only once its P was taken.
    pub(super) fn without_p(&mut self, turn: &mut Turn<'_>) -> Result<(), Key> {
        match self.held[turn.cursor as usize].p {
            Some(p) if !turn.force => Err(Key::Proc(p.get(), ANY)),
            _ => Ok(()),
        }
    }

    /// `turn`'s goroutine is back from a system call, has no P and is runnable.
    pub(super) fn syscall_exit_blocked(&mut self, turn: &mut Turn<'_>) -> Result<(), Key> {
        self.without_p(turn)?;
        let Some(g) = self.held[turn.cursor as usize].g.take().map(GId::get) else {
            turn.mismatch();
            return Ok(());
        };
        let place = self.goroutines.place(g);
        let entry = self.goroutines.at(place);
        if entry.state != GoState::Syscall {
            turn.mismatch();
        }
        (entry.state, entry.on) = (GoState::Runnable, NOBODY);
        self.goroutine_changed(g, place);
        Ok(())
    }

    /// `g` was found blocked in the kernel.
    pub(super) fn syscall_implicit(&mut self, g: u64, turn: &mut Turn<'_>) -> Result<(), Key> {
        let place = self.goroutines.place(g);
        let entry = self.goroutines.at(place);
        if entry.state != GoState::Running && !turn.force {
            return Err(Key::Goroutine(g, ANY));
        }
        entry.state = GoState::Syscall;
        self.goroutine_changed(g, place);
        Ok(())
    }

    /// The state of `p` when the generation began.
    pub(super) fn proc_status(&mut self, p: u32, state: ProcState, on: u32, turn: &mut Turn<'_>) {
        let place = self.procs.place(u64::from(p));
        let entry = self.procs.at(place);
        if entry.state != ProcState::Unknown {
            return turn.mismatch();
        }
        (entry.state, entry.seq, entry.on) = (state, 0, on);
        self.proc_changed(u64::from(p), place);
    }

    /// `turn`'s M begins to work with `p`.
    pub(super) fn proc_start(&mut self, p: u32, seq: u32, turn: &mut Turn<'_>) -> Result<(), Key> {
        let place = self.procs.place(u64::from(p));
        let entry = *self.procs.at(place);
        if !turn.force {
            if seq != entry.seq.wrapping_add(1) || entry.state != ProcState::Idle {
                return Err(Key::Proc(p, seq));
            }
            self.without_p(turn)?;
        }
        let entry = self.procs.at(place);
        (entry.state, entry.seq, entry.on) = (ProcState::Running, seq, turn.cursor);
        self.held[turn.cursor as usize].p = PId::new(p);
        self.proc_changed(u64::from(p), place);
        Ok(())
    }

    /// `turn`'s M lets go of its P.
    pub(super) fn proc_stop(&mut self, turn: &mut Turn<'_>) {
        let Some(p) = self.held[turn.cursor as usize].p.take() else {
            return turn.mismatch();
        };
        let p = u64::from(p.get());
        let place = self.procs.place(p);
        let entry = self.procs.at(place);
        if entry.on != turn.cursor && entry.state != ProcState::Unknown {
            return turn.mismatch();
        }
        (entry.state, entry.on) = (ProcState::Idle, NOBODY);
        self.proc_changed(p, place);
    }

    /// `p` was taken from the M that has it.
    pub(super) fn proc_steal(
        &mut self,
        p: u32,
        seq: u32,
        why: Option<RetakeReason>,
        turn: &mut Turn<'_>,
    ) -> Result<(), Key> {
        let place = self.procs.place(u64::from(p));
        let entry = *self.procs.at(place);
        let fits = match entry.state {
            ProcState::Syscall => true,
            ProcState::Running => why != Some(RetakeReason::Syscall),
            ProcState::Idle | ProcState::Unknown => false,
        };
        if !turn.force && (seq != entry.seq.wrapping_add(1) || !fits) {
            return Err(Key::Proc(p, seq));
        }
        if let Some(held) = self.held.get_mut(entry.on as usize)
            && held.p == PId::new(p)
        {
            held.p = None;
        }
        let entry = self.procs.at(place);
        (entry.state, entry.seq, entry.on) = (ProcState::Idle, seq, NOBODY);
        self.proc_changed(u64::from(p), place);
        Ok(())
    }
}

//! Records of goroutines, queues and Ps.

use crate::event::{
    ExitHow, Found, HandoffReason, PState, PreemptReason, Preemption, RetakeReason, StealFrom,
    Waker,
};
use crate::limits::WAIT_SLOTS;
use crate::spec::Kind;
use crate::write::encoder::Encoder;

/// The sequence number of a start or a ready: per goroutine and generation, the status or the
/// creation is 0 and each start and each ready is one more than the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seq {
    /// The last start, ready, creation or status of the goroutine in this generation was written by
    /// the same M, so the order of its blocks tells the number.
    Local,
    /// Another M wrote the last one; this is the number.
    Remote(u32),
}

/// What a goroutine waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// Why, as the number of a text (see [`text_number`](crate::write::text_number)).
    pub reason: u32,
    /// The place that waits: a site of this generation, 0 for none.
    pub site: u32,
    /// The channel, lock or other thing; 0 for none.
    pub object: u64,
}

/// A wait as two words: what a slot of a block means. Compared at every park, in registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WaitWords(u64, u64);

impl WaitWords {
    /// What no slot means: no text has this number.
    pub(super) const UNDEFINED: WaitWords = WaitWords(u64::MAX, u64::MAX);

    #[inline(always)]
    fn new(wait: Wait) -> WaitWords {
        WaitWords(
            u64::from(wait.reason) | u64::from(wait.site) << 32,
            wait.object,
        )
    }

    /// The slot that this wait has in every block.
    #[inline(always)]
    fn slot(self) -> usize {
        const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;
        let mixed = self.0 ^ self.1.rotate_left(16);
        (mixed.wrapping_mul(SPREAD) >> (64 - WAIT_SLOTS.trailing_zeros())) as usize
    }
}

impl Encoder {
    /// The slot of `wait`, after a definition of it where the block has none.
    #[inline(always)]
    fn slot_of(&mut self, chunk: &mut [u8], wait: Wait) -> u64 {
        let words = WaitWords::new(wait);
        let slot = words.slot();
        if *self.wait_slot(slot) != words {
            self.define_slot(chunk, words.0, words.1);
        }
        slot as u64
    }

    #[cold]
    #[inline(never)]
    fn define_slot(&mut self, chunk: &mut [u8], reason_and_site: u64, object: u64) {
        let words = WaitWords(reason_and_site, object);
        let slot = words.slot();
        let (reason, site) = (reason_and_site & u64::from(u32::MAX), reason_and_site >> 32);
        let before = self.used();
        self.record(
            chunk,
            Kind::WaitDef.head(0, false),
            [slot as u64, reason, object, site],
            0,
        );
        if self.used() != before {
            *self.wait_slot(slot) = words;
        }
    }

    /// The current goroutine parks, and `g` runs next on the same P: one stamp for both.
    // Always inlined: as a call its wait would go through memory, which costs more than the rest.
    #[inline(always)]
    pub fn park_start(
        &mut self,
        chunk: &mut [u8],
        now: u64,
        wait: Wait,
        g: u64,
        (found, seq): (Found, Seq),
    ) {
        let Some(value) = switch_value(found) else {
            self.park(chunk, now, wait);
            return self.start(chunk, now, g, found, seq);
        };
        let slot = self.slot_of(chunk, wait);
        let (dt, g) = (self.delta(now), self.relative(g));
        match seq {
            Seq::Local => {
                self.record(chunk, Kind::ParkStart.head(value, false), [dt, slot, g], 2);
            }
            Seq::Remote(seq) => {
                let args = [dt, slot, g, u64::from(seq)];
                self.record(chunk, Kind::ParkStart.head(value, true), args, 2);
            }
        }
    }

    /// The current goroutine yields, and `g` runs next on the same P.
    #[inline]
    pub fn yield_start(&mut self, chunk: &mut [u8], now: u64, g: u64, found: Found, seq: Seq) {
        match switch_value(found) {
            Some(value) => self.sequenced(chunk, now, (Kind::YieldStart, value, 2), g, seq),
            None => {
                self.yields(chunk, now);
                self.start(chunk, now, g, found, seq);
            }
        }
    }

    /// The current goroutine returned from its function, and `g` runs next on the same P.
    #[inline]
    pub fn exit_start(&mut self, chunk: &mut [u8], now: u64, g: u64, found: Found, seq: Seq) {
        match switch_value(found) {
            Some(value) => self.sequenced(chunk, now, (Kind::ExitStart, value, 2), g, seq),
            None => {
                self.exit(chunk, now, ExitHow::Returned);
                self.start(chunk, now, g, found, seq);
            }
        }
    }

    /// `g` begins to run on this M.
    #[inline]
    pub fn start(&mut self, chunk: &mut [u8], now: u64, g: u64, found: Found, seq: Seq) {
        self.sequenced(chunk, now, (Kind::Start, found as u8, 1), g, seq);
    }

    /// `g`, which waits, becomes runnable, made so by `waker`.
    #[inline]
    pub fn ready(&mut self, chunk: &mut [u8], now: u64, g: u64, waker: Waker, seq: Seq) {
        self.sequenced(chunk, now, (Kind::Ready, waker as u8, 1), g, seq);
    }

    #[inline(always)]
    fn sequenced(
        &mut self,
        chunk: &mut [u8],
        now: u64,
        (kind, value, events): (Kind, u8, u64),
        g: u64,
        seq: Seq,
    ) {
        let (dt, g) = (self.delta(now), self.relative(g));
        match seq {
            Seq::Local => self.record(chunk, kind.head(value, false), [dt, g], events),
            Seq::Remote(seq) => {
                self.record(
                    chunk,
                    kind.head(value, true),
                    [dt, g, u64::from(seq)],
                    events,
                );
            }
        }
    }

    /// The current goroutine parks.
    #[inline]
    pub fn park(&mut self, chunk: &mut [u8], now: u64, wait: Wait) {
        let slot = self.slot_of(chunk, wait);
        let dt = self.delta(now);
        self.record(chunk, Kind::Park.head(0, false), [dt, slot], 1);
    }

    /// The current goroutine yields.
    #[inline]
    pub fn yields(&mut self, chunk: &mut [u8], now: u64) {
        self.stamped(chunk, now, Kind::Yield, 0);
    }

    /// The current goroutine was made to give up its P.
    #[inline]
    pub fn preempted(&mut self, chunk: &mut [u8], now: u64, how: Preemption) {
        self.stamped(chunk, now, Kind::Preempted, how as u8);
    }

    /// The current goroutine ends.
    #[inline]
    pub fn exit(&mut self, chunk: &mut [u8], now: u64, how: ExitHow) {
        self.stamped(chunk, now, Kind::Exit, how as u8);
    }

    /// The current goroutine (or the runtime, where there is none) made goroutine `child`. `site`
    /// names the start function and the place of the call; 0 where it is not known.
    #[inline]
    pub fn create(&mut self, chunk: &mut [u8], now: u64, child: u64, site: u32) {
        let args = [self.delta(now), self.relative(child), u64::from(site)];
        self.record(chunk, Kind::Create.head(0, false), args, 1);
    }

    /// The current goroutine is called `label` from here on.
    #[inline]
    pub fn label(&mut self, chunk: &mut [u8], now: u64, label: u32) {
        let args = [self.delta(now), u64::from(label)];
        self.record(chunk, Kind::Label.head(0, false), args, 1);
    }

    /// Somebody wants P `victim` back, on which `g` runs (0: not known).
    #[inline]
    pub fn preempt_request(
        &mut self,
        chunk: &mut [u8],
        now: u64,
        victim: u32,
        g: u64,
        why: PreemptReason,
    ) {
        let args = [self.delta(now), u64::from(victim), g];
        self.record(chunk, Kind::PreemptRequest.head(why as u8, false), args, 1);
    }

    /// The next event of this block happened at stack `stack` of the generation.
    #[inline]
    pub fn at_stack(&mut self, chunk: &mut [u8], stack: u32) {
        self.record(chunk, Kind::AtStack.head(0, false), [u64::from(stack)], 0);
    }

    /// A search took `n` goroutines from P `victim`, the one that is run included.
    #[inline]
    pub fn steal(&mut self, chunk: &mut [u8], now: u64, victim: u32, n: u32, from: StealFrom) {
        let args = [self.delta(now), u64::from(victim), u64::from(n)];
        self.record(chunk, Kind::Steal.head(from as u8, false), args, 1);
    }

    /// A search by stealing ended without a goroutine after `attempts` queues.
    #[inline]
    pub fn steal_failed(&mut self, chunk: &mut [u8], now: u64, attempts: u32) {
        self.counted(chunk, now, Kind::StealFailed, u64::from(attempts));
    }

    /// The full ring moved `n` goroutines to the global queue.
    #[inline]
    pub fn overflow(&mut self, chunk: &mut [u8], now: u64, n: u32) {
        self.counted(chunk, now, Kind::Overflow, u64::from(n));
    }

    /// `n` goroutines were taken from the global queue, the one that is run included.
    #[inline]
    pub fn global_batch(&mut self, chunk: &mut [u8], now: u64, n: u32) {
        self.counted(chunk, now, Kind::GlobalBatch, u64::from(n));
    }

    /// This M begins to work with P `p`. `seq`: per P and generation, its status is 0, and each start
    /// of the P, each steal of it and each *entry into a system call* of the M that holds it
    /// ([`Encoder::syscall_enter`], which does not write the number) is one more than the last.
    #[inline]
    pub fn proc_start(&mut self, chunk: &mut [u8], now: u64, p: u32, seq: u32) {
        let args = [self.delta(now), u64::from(p), u64::from(seq)];
        self.record(chunk, Kind::ProcStart.head(0, false), args, 1);
    }

    /// This M's P becomes idle.
    #[inline]
    pub fn proc_stop(&mut self, chunk: &mut [u8], now: u64) {
        self.stamped(chunk, now, Kind::ProcStop, 0);
    }

    /// P `victim` was taken from M `from` (`None`: not known), with the P's next sequence number
    /// (see [`Encoder::proc_start`]).
    #[inline]
    pub fn proc_steal(
        &mut self,
        chunk: &mut [u8],
        now: u64,
        (victim, seq): (u32, u32),
        from: Option<u64>,
        why: RetakeReason,
    ) {
        let args = [
            self.delta(now),
            u64::from(victim),
            u64::from(seq),
            optional_m(from),
        ];
        self.record(chunk, Kind::ProcSteal.head(why as u8, false), args, 1);
    }

    /// This M gave its P to M `to` (`None`: not known), which then writes the P's start.
    #[inline]
    pub fn proc_handoff(
        &mut self,
        chunk: &mut [u8],
        now: u64,
        to: Option<u64>,
        why: HandoffReason,
    ) {
        let args = [self.delta(now), optional_m(to)];
        self.record(chunk, Kind::ProcHandoff.head(why as u8, false), args, 1);
    }

    /// What P `p` was doing when the generation began, and on which M. Comes before the P's first
    /// event of the generation.
    #[inline]
    pub fn proc_status(
        &mut self,
        chunk: &mut [u8],
        now: u64,
        p: u32,
        state: PState,
        on_m: Option<u64>,
    ) {
        let args = [self.delta(now), u64::from(p), optional_m(on_m)];
        self.record(chunk, Kind::ProcStatus.head(state as u8, false), args, 1);
    }

    /// The number of Ps is now `procs`.
    #[inline]
    pub fn procs_change(&mut self, chunk: &mut [u8], now: u64, procs: u32) {
        self.counted(chunk, now, Kind::ProcsChange, u64::from(procs));
    }

    /// This M goes on in user code without a P.
    #[inline]
    pub fn run_without_p(&mut self, chunk: &mut [u8], now: u64) {
        self.stamped(chunk, now, Kind::RunWithoutP, 0);
    }

    #[inline(always)]
    pub(super) fn stamped(&mut self, chunk: &mut [u8], now: u64, kind: Kind, value: u8) {
        let dt = self.delta(now);
        self.record(chunk, kind.head(value, false), [dt], 1);
    }

    #[inline(always)]
    pub(super) fn counted(&mut self, chunk: &mut [u8], now: u64, kind: Kind, count: u64) {
        let dt = self.delta(now);
        self.record(chunk, kind.head(0, false), [dt, count], 1);
    }
}

/// The small value that a switch record has for `found`, if it has one.
#[inline]
fn switch_value(found: Found) -> Option<u8> {
    match found {
        Found::Runnext => Some(0),
        Found::Local => Some(1),
        _ => None,
    }
}

/// An M that may be none, as written: 0 is none.
#[inline]
pub(super) fn optional_m(m: Option<u64>) -> u64 {
    m.map_or(0, |m| m.wrapping_add(1))
}

//! A P: the right to run goroutines, with the queue, the timers and the pools that go with it.

use std::cell::{Cell, UnsafeCell};

use crate::lock::{Rank, SpinLock};
use crate::prim::atomic::{AtomicI32, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use crate::prim::hint;
use crate::sched::fuzz;
use crate::sched::g::G;
use crate::sched::inject::GStack;
use crate::sched::m::M;
use crate::sched::refs::{GRef, MRef, PRef};
use crate::sched::runq::{Line, Owner, RunQueue};
use crate::sched::shown::ShownNumber;
use crate::stack::StackCache;
use crate::stats::Durations;
use crate::time::heap::TimerHeap;

/// No timer.
pub(crate) const NO_DEADLINE: u64 = u64::MAX;

/// While timers wait, one switch in so many looks at the clock.
const SWITCHES_BETWEEN_TIMER_LOOKS: u32 = 16;

/// So many goroutines in a row come from `runnext`; then the slice that they share is over, and the others
/// of the queue have a turn. Go ends it by its clock after 10 ms.
const LONGEST_CHAIN: u32 = 256;

/// One P.
///
/// Fields that are not atomic and not locked are touched by the M that holds the P, and by nobody
/// else.
#[repr(align(128))]
pub(crate) struct P {
    /// Counted from 0.
    pub(crate) id: u32,
    /// Turns: goroutines started, but those that inherit the slice of the one before.
    tick: AtomicU32,
    /// The last turn in which a goroutine went on with a slice that was interrupted, and the lower half of the moment at
    /// which that slice began.
    continued: AtomicU64,
    /// Goroutines started since the clock was last looked at for timers.
    switches: Cell<u32>,
    /// Goroutines in a row that share a slice.
    chain: Cell<u32>,
    /// Whether the global queue was passed over at its last turn.
    global_waited: Cell<bool>,
    /// Not zero: look at the scheduler before the queue. Written by anybody.
    attention: AtomicU32,
    /// Whether it is one of those that there are. Under the scheduler's lock.
    pub(crate) live: Cell<bool>,
    /// Runnable goroutines.
    pub(crate) runq: RunQueue<G>,
    /// Sleepers, by deadline.
    pub(crate) timers: SpinLock<TimerHeap>,
    /// The earliest deadline of `timers`, or [`NO_DEADLINE`]. Written under the lock of `timers`.
    next_timer: AtomicU64,
    /// The M that holds it.
    m: AtomicPtr<M>,
    /// The M in whose system call it is; null while it is in none. Whoever exchanges it for null holds the P.
    in_call_of: AtomicPtr<M>,
    /// Counts system calls.
    call_tick: AtomicU32,
    /// The last call that the monitor saw, and when it saw it first. The monitor's.
    pub(crate) seen_call: Cell<(u32, u64)>,
    /// Numbers for new goroutines: the next one and the end of the batch.
    ids: [ShownNumber; 2],
    /// How long goroutines that it started were runnable.
    pub(crate) latencies: Durations,
    /// The state of the generator of random numbers.
    random: Cell<u64>,
    /// Goroutines that began to wait for a socket on it, less those that went on on it. Others read it whenever they
    /// find nothing to do, so it is far from what is written all the time.
    net_waiting: Line<AtomicI32>,
    /// Free goroutines.
    pub(crate) free: UnsafeCell<GStack>,
    /// Free stacks.
    pub(crate) stacks: UnsafeCell<StackCache>,
    /// The next one in the list of idle Ps, or of Ps that wait for an M. Under the scheduler's lock.
    pub(crate) link: Cell<Option<PRef>>,
    /// While it waits for an M: whether that M counts as one that spins. Under the scheduler's lock.
    pub(crate) awaits_spinning: Cell<bool>,
    /// What the tracer remembers of it.
    pub(crate) traced: crate::trace::marks::ProcTrace,
}

// SAFETY: see the type: plain fields belong to the M that holds the P, which passes on through the
// scheduler's lock or `M::next_p`.
unsafe impl Sync for P {}
// SAFETY: as above.
unsafe impl Send for P {}

impl P {
    pub(crate) fn new(id: u32, stack_class: u8) -> P {
        P {
            id,
            tick: AtomicU32::new(0),
            continued: AtomicU64::new(0),
            switches: Cell::new(0),
            chain: Cell::new(0),
            global_waited: Cell::new(false),
            attention: AtomicU32::new(0),
            live: Cell::new(false),
            runq: RunQueue::new(),
            timers: SpinLock::new(Rank::Timers, TimerHeap::new()),
            next_timer: AtomicU64::new(NO_DEADLINE),
            m: AtomicPtr::new(std::ptr::null_mut()),
            ids: [ShownNumber::new(0), ShownNumber::new(0)],
            latencies: Durations::new(),
            in_call_of: AtomicPtr::new(std::ptr::null_mut()),
            call_tick: AtomicU32::new(0),
            seen_call: Cell::new((0, 0)),
            random: Cell::new(
                (0x9e37_79b9_7f4a_7c15 ^ (u64::from(id) << 32 | 1))
                    .wrapping_add(fuzz::seed().wrapping_mul(0x2545_f491_4f6c_dd1d))
                    .max(1),
            ),
            net_waiting: Line(AtomicI32::new(0)),
            free: UnsafeCell::new(GStack::new()),
            stacks: UnsafeCell::new(StackCache::new(stack_class)),
            link: Cell::new(None),
            awaits_spinning: Cell::new(false),
            traced: crate::trace::marks::ProcTrace::default(),
        }
    }

    /// The run queue as its owner sees it: for the M that holds this P.
    #[inline(always)]
    pub(crate) fn queue(&self) -> Owner<'_, G> {
        // SAFETY: called by the M that holds the P, as all of its plain fields are touched.
        unsafe { self.runq.owner() }
    }

    /// The goroutine at the head of the queue, and whether it inherits the time slice of the one before
    /// it: it was in `runnext`.
    #[inline(always)]
    pub(crate) fn take_next(&self) -> Option<(GRef, bool)> {
        self.queue()
            .get()
            .map(|taken| (GRef::from_non_null(taken.goroutine), taken.inherit_time))
    }

    /// Brings the memory near of those who come next in the ring: in a long one each is in no cache. The stack
    /// pointer of the second one has just been fetched when it becomes the first.
    #[inline(always)]
    pub(crate) fn fetch_ahead(&self) {
        let queue = self.queue();
        if let Some(first) = queue.peek(0) {
            GRef::from_non_null(first).context.fetch_ahead();
            if let Some(second) = queue.peek(1) {
                hint::prefetch(second.as_ptr());
            }
        }
    }

    /// Turns so far.
    #[inline(always)]
    pub(crate) fn tick(&self) -> u32 {
        // ordering: Relaxed: the M that holds the P reads its own value, others a snapshot.
        self.tick.load(Ordering::Relaxed)
    }

    /// Counts a goroutine that starts; one from `runnext` shares the slice of the one before.
    #[inline(always)]
    pub(crate) fn count_start(&self, inherits_slice: bool) {
        self.switches.set(self.switches.get().wrapping_add(1));
        if inherits_slice {
            self.chain.set(self.chain.get() + 1);
        } else {
            self.chain.set(0);
            // ordering: Relaxed: only the M that holds the P writes it.
            self.tick
                .store(self.tick().wrapping_add(1), Ordering::Relaxed);
        }
    }

    /// Counts a goroutine that goes on with a slice that `began` earlier and was interrupted.
    pub(crate) fn count_continued(&self, began: u64) {
        let turn = self.tick().wrapping_add(1);
        // ordering: Relaxed: who reads it late takes the slice for a new one.
        self.continued.store(
            u64::from(turn) << 32 | began & u64::from(u32::MAX),
            Ordering::Relaxed,
        );
        self.count_start(false);
    }

    /// When the slice of `turn`, which has just been seen, began, as far as is known `now`.
    pub(crate) fn slice_began(&self, turn: u32, now: u64) -> u64 {
        // ordering: Relaxed, as in `count_continued`.
        let continued = self.continued.load(Ordering::Relaxed);
        if (continued >> 32) as u32 != turn {
            return now;
        }
        now - u64::from((now as u32).wrapping_sub(continued as u32))
    }

    /// Whether the slice that the last goroutines shared is over: one from the ring or the global queue
    /// comes before `runnext`.
    #[inline(always)]
    pub(crate) fn slice_is_over(&self) -> bool {
        self.chain.get() >= LONGEST_CHAIN
    }

    /// At the turn of the global queue: whether it is taken from, and not passed over this time because a timer
    /// has woken somebody here, who would wait for a whole slice if the first of that queue is frozen.
    pub(crate) fn takes_global(&self, timers_fired: bool) -> bool {
        let passes = timers_fired && !self.global_waited.get();
        self.global_waited.set(passes);
        !passes
    }

    /// The oldest goroutine of the ring.
    pub(crate) fn take_oldest(&self) -> Option<GRef> {
        self.queue().get_oldest().map(GRef::from_non_null)
    }

    /// Whether somebody wants the M of this P to look at the scheduler.
    #[inline(always)]
    pub(crate) fn wants_attention(&self) -> bool {
        // ordering: Relaxed: what it is about is read under locks.
        self.attention.load(Ordering::Relaxed) != 0
    }

    /// Makes the M of this P look at the scheduler at its next switch.
    pub(crate) fn demand_attention(&self) {
        // ordering: Release: the M that sees it takes a lock, or reads `stopping` with Acquire.
        self.attention.store(1, Ordering::Release);
    }

    /// The M of this P is about to look; whether somebody wanted that.
    pub(crate) fn take_attention(&self) -> bool {
        // ordering: Acquire; pairs with the Release in `demand_attention`: what it is about is seen.
        self.attention.swap(0, Ordering::Acquire) != 0
    }

    /// Whether it is time to look at the clock for timers.
    #[inline(always)]
    pub(crate) fn timers_may_be_due(&self) -> bool {
        self.next_timer() != NO_DEADLINE
            && self
                .switches
                .get()
                .is_multiple_of(SWITCHES_BETWEEN_TIMER_LOOKS)
    }

    /// The earliest deadline of this P's timers, in nanoseconds of the monotonic clock.
    #[inline(always)]
    pub(crate) fn next_timer(&self) -> u64 {
        // ordering: Relaxed: a deadline that is missed here is seen at the next look; an M that goes
        // to sleep looks after SleepFence.
        self.next_timer.load(Ordering::Relaxed)
    }

    /// Publishes the earliest deadline of `heap`, whose lock the caller holds.
    pub(crate) fn publish_next_timer(&self, heap: &TimerHeap) {
        // ordering: Relaxed: the lock of the heap orders writers; readers as in `next_timer`.
        self.next_timer
            .store(heap.earliest_ns().unwrap_or(NO_DEADLINE), Ordering::Relaxed);
    }

    /// How many free goroutines it has.
    pub(crate) fn free_count(&self) -> u32 {
        // SAFETY: the length may be read at any time, and nothing else is.
        unsafe { GStack::len_at(self.free.get()) }
    }

    /// The M that holds it.
    pub(crate) fn m(&self) -> Option<MRef> {
        // ordering: Relaxed: a snapshot.
        MRef::from_ptr(self.m.load(Ordering::Relaxed))
    }

    /// Says which M holds it.
    pub(crate) fn set_m(&self, m: Option<MRef>) {
        // ordering: Relaxed: for snapshots.
        self.m.store(
            m.map_or(std::ptr::null_mut(), MRef::as_ptr),
            Ordering::Relaxed,
        );
    }

    /// `m`, which holds it, enters a system call: from now on anybody may take it.
    #[inline(always)]
    pub(crate) fn begin_call(&self, m: MRef) {
        // ordering: Relaxed, both: only the M that holds the P writes it.
        let tick = self.call_tick.load(Ordering::Relaxed).wrapping_add(1);
        // ordering: Relaxed, as above.
        self.call_tick.store(tick, Ordering::Relaxed);
        // ordering: Release; pairs with the Acquire in `take_from_call`: whoever takes it sees what its M did
        // to it.
        self.in_call_of.store(m.as_ptr(), Ordering::Release);
    }

    /// Takes it out of the system call of `m`: true for one, `m` or somebody else, who holds it then.
    #[inline(always)]
    pub(crate) fn take_from_call(&self, m: MRef) -> bool {
        // ordering: Acquire; pairs with the Release in `begin_call`. Relaxed on failure: nothing was taken.
        self.in_call_of
            .compare_exchange(
                m.as_ptr(),
                std::ptr::null_mut(),
                Ordering::Acquire,
                Ordering::Relaxed,
            )
            .is_ok()
    }

    /// The M in whose system call it is.
    #[inline(always)]
    pub(crate) fn in_call_of(&self) -> Option<MRef> {
        // ordering: Acquire; pairs with the Release in `begin_call`: the number of the call is seen with it.
        MRef::from_ptr(self.in_call_of.load(Ordering::Acquire))
    }

    /// How many system calls there were.
    pub(crate) fn call_tick(&self) -> u32 {
        // ordering: Relaxed: for the monitor, after `in_call_of`.
        self.call_tick.load(Ordering::Relaxed)
    }

    /// Goroutines that began to wait for a socket on it, less those that went on on it.
    pub(crate) fn net_waiting(&self) -> i32 {
        // ordering: Relaxed: see `netpoll::has_waiters`.
        self.net_waiting.0.load(Ordering::Relaxed)
    }

    /// Counts them. For the M that holds it.
    pub(crate) fn count_net_waiting(&self, more: i32) {
        let count = self.net_waiting().wrapping_add(more);
        // ordering: Relaxed, as in `net_waiting`; only the M that holds the P writes it.
        self.net_waiting.0.store(count, Ordering::Relaxed);
    }

    /// A number for a new goroutine, from a batch that `refill` gets when the last one is used up.
    #[inline(always)]
    pub(crate) fn next_goroutine_id(&self, refill: impl FnOnce() -> (u64, u64)) -> u64 {
        let mut next = self.ids[0].get();
        if next == self.ids[1].get() {
            let (first, end) = refill();
            self.ids[1].set(end);
            next = first;
        }
        self.ids[0].set(next + 1);
        next
    }

    /// How many numbers of its batch it has not given out.
    pub(crate) fn unused_ids(&self) -> u64 {
        self.ids[1].get().saturating_sub(self.ids[0].get())
    }

    /// Whether a goroutine that becomes runnable now is one of those whose waiting for a P is measured: one
    /// in 64, spread so that no rhythm of a program hides any.
    #[inline(always)]
    pub(crate) fn samples_latency(&self) -> bool {
        // The golden ratio's part of all numbers: multiples of it fall evenly.
        self.switches.get().wrapping_mul(0x9e37_79b9) < 1 << 26
    }

    /// Whether to make another choice than usual, once in so many times: never in an ordinary build. For the M
    /// that holds it.
    #[inline(always)]
    pub(crate) fn perturbs(&self, once_in: u32) -> bool {
        fuzz::ON && self.random().is_multiple_of(once_in)
    }

    /// A random number (xorshift64*): good enough for the order of victims.
    pub(crate) fn random(&self) -> u32 {
        let mut x = self.random.get();
        x ^= x >> 12;
        x ^= x << 25;
        x ^= x >> 27;
        self.random.set(x);
        (x.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) as u32
    }
}

impl std::fmt::Debug for P {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("P")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_global_queue_is_passed_over_once_at_most() {
        let p = P::new(0, 0);
        let taken = [false, true, true, true, false, true].map(|fired| p.takes_global(fired));
        assert_eq!(taken, [true, false, true, false, true, false]);
    }
}

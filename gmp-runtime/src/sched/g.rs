//! A goroutine: its states, what it waits for, what it runs.
//!
//! # Who may touch the fields
//!
//! A goroutine has one owner at any time, and its plain fields are the owner's: the M that runs it,
//! the queue that holds it while it is runnable (whoever takes it out becomes the owner), whoever
//! wakes it while it waits. Ownership passes through the queue's or the lock's release and acquire.
//! Fields that others read are atomic.
//!
//! # States
//!
//! | state | on a run queue | who owns it | who makes it move |
//! |---|---|---|---|
//! | idle | no | a free list, then its creator | its creator |
//! | runnable | yes | the queue | the M that takes it |
//! | running | no | its M | itself |
//! | waiting | no | what it waits for | whoever wakes it |
//! | syscall | no | its M | itself |
//! | preempted | no | the M it is frozen on | the scheduler |
//! | dead | no | its handle, then a free list | its handle |
//!
//! The numbers are Go's.

use std::any::Any;
use std::cell::{Cell, UnsafeCell};
use std::mem::MaybeUninit;
use std::panic::Location;

use crate::fatal::fatal;
use crate::prim::atomic::{AtomicPtr, AtomicU32, Ordering};
use crate::sched::Sched;
use crate::sched::claim::Claim;
use crate::sched::m::M;
use crate::sched::mark::Mark;
use crate::sched::refs::{GRef, MRef};
use crate::sched::shown::{ShownNumber, ShownRef, ShownWait};
use crate::stack::Stack;
use crate::switch::Context;

/// A state of a goroutine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub(crate) enum GState {
    /// In a free list, or being made.
    Idle = 0,
    /// On a run queue.
    Runnable = 1,
    /// On an M with a P.
    Running = 2,
    /// On an M, in a system call.
    Syscall = 3,
    /// Waits for something.
    Waiting = 4,
    /// Ended; its result may still be there.
    Dead = 6,
    /// Frozen on its M.
    Preempted = 9,
}

/// Every transition there is.
const TRANSITIONS: &[(GState, GState)] = &[
    (GState::Idle, GState::Runnable),      // created
    (GState::Runnable, GState::Running),   // started
    (GState::Running, GState::Runnable),   // yielded
    (GState::Running, GState::Waiting),    // parked
    (GState::Waiting, GState::Runnable),   // ready
    (GState::Running, GState::Dead),       // ended
    (GState::Runnable, GState::Dead),      // dropped at shutdown before it ran
    (GState::Dead, GState::Idle),          // recycled
    (GState::Running, GState::Syscall),    // enters a system call
    (GState::Syscall, GState::Running),    // comes back with a P
    (GState::Syscall, GState::Runnable),   // comes back without one
    (GState::Running, GState::Preempted),  // frozen
    (GState::Preempted, GState::Runnable), // queued again
    (GState::Preempted, GState::Running),  // thawed
    (GState::Syscall, GState::Preempted),  // comes back outside the scheduler without one
];

/// Whether a goroutine may go from the state with number `from` to that with number `to`.
const fn is_transition(from: u32, to: u32) -> bool {
    let mut i = 0;
    while i < TRANSITIONS.len() {
        let (a, b) = TRANSITIONS[i];
        if a as u32 == from && b as u32 == to {
            return true;
        }
        i += 1;
    }
    false
}

impl GState {
    /// The state with number `raw`, as a word for a report.
    pub(crate) fn name(raw: u32) -> &'static str {
        match raw {
            0 => "idle",
            1 => "runnable",
            2 => "running",
            3 => "syscall",
            4 => "waiting",
            6 => "dead",
            9 => "preempted",
            _ => "unknown",
        }
    }
}

/// Why a goroutine waits. The numbers are those of `gmp_trace::tables::KNOWN_TEXTS`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum WaitReason {
    /// Waits for a socket.
    IoWait = 1,
    /// Receives from a channel.
    ChanReceive = 2,
    /// Sends to a channel.
    ChanSend = 3,
    /// Waits for one of several channel operations.
    Select = 6,
    /// Waits for no channel operation at all.
    SelectNoCases = 7,
    /// Sleeps.
    Sleep = 8,
    /// Waits for a semaphore, or for something of its kind that Go has no name of its own for.
    Semaphore = 9,
    /// Waits for a condition.
    CondWait = 10,
    /// Locks a mutex.
    MutexLock = 11,
    /// Locks for reading.
    RwLockRead = 12,
    /// Locks for writing.
    RwLockWrite = 13,
    /// Waits for a group of goroutines to be done.
    WaitGroupWait = 14,
    /// Waits for another goroutine to end.
    Join = 16,
    /// Parked by the program.
    Park = 17,
    /// Waits for a collection cycle.
    GcCycle = 18,
}

/// Every reason.
const WAIT_REASONS: &[WaitReason] = &[
    WaitReason::IoWait,
    WaitReason::ChanReceive,
    WaitReason::ChanSend,
    WaitReason::Select,
    WaitReason::SelectNoCases,
    WaitReason::Sleep,
    WaitReason::Semaphore,
    WaitReason::CondWait,
    WaitReason::MutexLock,
    WaitReason::RwLockRead,
    WaitReason::RwLockWrite,
    WaitReason::WaitGroupWait,
    WaitReason::Join,
    WaitReason::Park,
    WaitReason::GcCycle,
];

impl WaitReason {
    /// The reason with this number.
    #[inline(always)]
    pub(crate) fn from_number(number: u8) -> Option<WaitReason> {
        const BY_NUMBER: [Option<WaitReason>; 256] = {
            let mut table = [None; 256];
            let mut i = 0;
            while i < WAIT_REASONS.len() {
                table[WAIT_REASONS[i] as usize] = Some(WAIT_REASONS[i]);
                i += 1;
            }
            table
        };
        BY_NUMBER[usize::from(number)]
    }

    /// Go's words for it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            WaitReason::IoWait => "IO wait",
            WaitReason::ChanReceive => "chan receive",
            WaitReason::ChanSend => "chan send",
            WaitReason::Select => "select",
            WaitReason::SelectNoCases => "select (no cases)",
            WaitReason::Sleep => "sleep",
            WaitReason::Semaphore => "semacquire",
            WaitReason::CondWait => "sync.Cond.Wait",
            WaitReason::MutexLock => "sync.Mutex.Lock",
            WaitReason::RwLockRead => "sync.RWMutex.RLock",
            WaitReason::RwLockWrite => "sync.RWMutex.Lock",
            WaitReason::WaitGroupWait => "sync.WaitGroup.Wait",
            WaitReason::Join => "join",
            WaitReason::Park => "park",
            WaitReason::GcCycle => "wait for GC cycle",
        }
    }
}

/// What becomes of a suspended goroutine when the scheduler ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AtEnd {
    /// It unwinds from the call that it is in.
    Unwinds,
    /// Its call is done, and what came of it must not be lost: it goes on to its next one.
    GoesOn,
    /// It unwinds already, from a panic of its own, and cannot do so twice.
    Stays,
    /// It was told to unwind, and has found that it cannot.
    CannotUnwind,
}

impl AtEnd {
    /// For a goroutine that runs here, in a call that it may unwind from.
    #[inline(always)]
    pub(crate) fn here() -> AtEnd {
        if std::thread::panicking() {
            AtEnd::Stays
        } else {
            AtEnd::Unwinds
        }
    }
}

/// What a goroutine waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wait {
    /// Of which kind.
    pub(crate) reason: WaitReason,
    /// Which one: an address or number that stays the same while anybody waits for it.
    pub(crate) object: u64,
    /// Where in the program.
    pub(crate) site: &'static Location<'static>,
}

/// What to do with a closure and its result, for one type of closure.
#[derive(Debug)]
pub(crate) struct Routine {
    /// Calls the closure in the payload and leaves its result there.
    pub(crate) run: unsafe fn(&G) -> crate::trace::marks::ExitHow,
    /// Drops the closure in the payload.
    pub(crate) drop_closure: unsafe fn(&G),
    /// Drops the result in the payload.
    pub(crate) drop_result: unsafe fn(&G),
    /// Leaves as the result that it was cancelled.
    pub(crate) put_cancelled: unsafe fn(&G),
    /// The name of the start function.
    pub(crate) name: fn() -> &'static str,
}

/// Values by the address of their key, oldest first: few, so a search is short. One that is being made is not
/// there yet, and its key is.
#[derive(Debug, Default)]
pub(crate) struct Locals(pub(crate) Vec<(usize, Option<Box<dyn Any>>)>);

/// Words that the closure, later its result, may use inside the goroutine.
pub(crate) const PAYLOAD_WORDS: usize = 10;

/// One goroutine.
#[repr(C, align(128))]
pub(crate) struct G {
    /// Where it goes on. Owner's.
    pub(crate) context: Context,
    /// Written by the owner, read by dumps.
    state: AtomicU32,
    /// Whether a collection cycle touches its stack. Read by whoever starts it.
    pub(crate) claim: Claim,
    /// The M it runs on. Written by the M that starts it.
    m: AtomicPtr<M>,
    /// Whether it is in the runtime.
    pub(crate) mark: Mark,
    /// Ended, detached, awaited: see `spawn`.
    pub(crate) join: AtomicU32,
    /// The next one in whatever list it is in. Owner's.
    pub(crate) link: Cell<Option<GRef>>,
    /// Its stack, from its first run to its end, or from before its first run if that was made sure of. Owner's.
    pub(crate) stack: Cell<Option<Stack>>,
    /// For `park` and `unpark`.
    pub(crate) permit: AtomicU32,
    /// How many times it was locked and not unlocked. Its own.
    pub(crate) locks: Cell<u32>,
    /// The M that it is locked to: it runs on no other one. Written by itself, read by its owner and dumps.
    locked_to: AtomicPtr<M>,
    /// Written by the owner.
    pub(crate) id: ShownNumber,
    /// What its closure and result are. Written by the owner.
    pub(crate) routine: ShownRef<Routine>,
    /// The closure until it runs, the result when it has run.
    payload: UnsafeCell<[MaybeUninit<u64>; PAYLOAD_WORDS]>,
    /// Who waits in `join`. Written before the bit that says so.
    pub(crate) joiner: Cell<Option<GRef>>,
    /// What it waits for, while it waits. Written by the owner.
    pub(crate) wait: ShownWait,
    /// Since when it has been runnable, if that is measured; else 0. Owner's.
    pub(crate) runnable_since: Cell<u64>,
    /// Values of goroutine-locals, if there are any. The goroutine's own.
    pub(crate) locals: UnsafeCell<Option<Box<Locals>>>,
    /// Where it was made. Written by the owner.
    pub(crate) created_at: ShownRef<Location<'static>>,
    /// Who made it; 0 for the runtime. Written by the owner.
    pub(crate) creator: ShownNumber,
    /// The scheduler that it belongs to; set when its memory is first used.
    pub(crate) sched: &'static Sched,
    /// One that comes some places after it in the list that it is in, whose memory is fetched early. Owner's.
    pub(crate) ahead: Cell<Option<GRef>>,
    /// Whether it has begun to run. Owner's.
    pub(crate) started: Cell<bool>,
    /// What becomes of it if it is suspended when the scheduler ends. Written whenever it leaves its M.
    pub(crate) at_end: Cell<AtEnd>,
    /// What the tracer remembers of it.
    pub(crate) traced: crate::trace::marks::GoroutineTrace,
}

impl G {
    /// A goroutine that nobody has used yet.
    pub(crate) fn new(sched: &'static Sched) -> G {
        G {
            context: Context::new(),
            state: AtomicU32::new(GState::Idle as u32),
            claim: Claim::new(),
            m: AtomicPtr::new(std::ptr::null_mut()),
            mark: Mark::new(),
            link: Cell::new(None),
            ahead: Cell::new(None),
            stack: Cell::new(None),
            locked_to: AtomicPtr::new(std::ptr::null_mut()),
            locks: Cell::new(0),
            id: ShownNumber::new(0),
            routine: ShownRef::none(),
            payload: UnsafeCell::new([const { MaybeUninit::uninit() }; PAYLOAD_WORDS]),
            join: AtomicU32::new(0),
            joiner: Cell::new(None),
            wait: ShownWait::nothing(),
            runnable_since: Cell::new(0),
            started: Cell::new(false),
            at_end: Cell::new(AtEnd::Unwinds),
            locals: UnsafeCell::new(None),
            permit: AtomicU32::new(0),
            created_at: ShownRef::none(),
            creator: ShownNumber::new(0),
            sched,
            traced: crate::trace::marks::GoroutineTrace::default(),
        }
    }

    /// Goes from state `FROM` to `TO`. A transition that is not in [`TRANSITIONS`] does not compile; one from another state than `FROM` ends the process with a report.
    #[inline(always)]
    pub(crate) fn transition<const FROM: u32, const TO: u32>(&self) {
        const { assert!(is_transition(FROM, TO), "no such transition of a goroutine") };
        // ordering: Relaxed: the state tells nothing about other memory; ownership of the goroutine
        // passes through the queue or the lock.
        let now = self.state.load(Ordering::Relaxed);
        if now != FROM {
            self.illegal_transition(now, TO);
        }
        // ordering: Release; pairs with the Acquire load in `state`: who sees a new goroutine runnable sees
        // what was written to it before.
        self.state.store(TO, Ordering::Release);
    }

    #[cold]
    #[inline(never)]
    fn illegal_transition(&self, from: u32, to: u32) -> ! {
        let (m, p) = match self.m() {
            Some(m) => (m.id as i64, m.p().map_or(-1, |p| i64::from(p.id))),
            None => (-1, -1),
        };
        fatal!(
            "goroutine {} on M {m}, P {p}: state {} cannot become {}",
            self.id.get(),
            GState::name(from),
            GState::name(to),
        )
    }

    /// The number of its state.
    pub(crate) fn state(&self) -> u32 {
        // ordering: Acquire; pairs with the Release store in `transition`.
        self.state.load(Ordering::Acquire)
    }

    /// The M it runs on or ran on last.
    #[inline(always)]
    pub(crate) fn m(&self) -> Option<MRef> {
        // ordering: Relaxed: the goroutine itself reads what the M that runs it wrote; ownership
        // passed in between.
        MRef::from_ptr(self.m.load(Ordering::Relaxed))
    }

    /// The M that it is frozen on, for its owner.
    pub(crate) fn frozen_on(&self) -> Option<MRef> {
        (self.state() == GState::Preempted as u32)
            .then(|| self.m())
            .flatten()
    }

    /// Binds it to the M that is about to run it.
    #[inline(always)]
    pub(crate) fn set_m(&self, m: MRef) {
        // ordering: Relaxed, as in `m`.
        self.m.store(m.as_ptr(), Ordering::Relaxed);
    }

    /// The M that it is locked to.
    #[inline(always)]
    pub(crate) fn locked_to(&self) -> Option<MRef> {
        // ordering: Relaxed, as in `m`.
        MRef::from_ptr(self.locked_to.load(Ordering::Relaxed))
    }

    /// Locks it to an M, or to none.
    #[inline]
    pub(crate) fn lock_to(&self, m: Option<MRef>) {
        // ordering: Relaxed, as in `m`.
        self.locked_to.store(
            m.map_or(std::ptr::null_mut(), MRef::as_ptr),
            Ordering::Relaxed,
        );
    }

    /// Where the closure, or the result, is.
    pub(crate) fn payload(&self) -> *mut u64 {
        self.payload.get().cast()
    }
}

impl std::fmt::Debug for G {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("G")
            .field("state", &GState::name(self.state()))
            .finish_non_exhaustive()
    }
}

/// Goes from one state to another: `transition!(g, Running => Waiting)`.
macro_rules! transition {
    ($g:expr, $from:ident => $to:ident) => {
        $g.transition::<
                                                    { $crate::sched::g::GState::$from as u32 },
                                                    { $crate::sched::g::GState::$to as u32 },
                                                >()
    };
}
pub(crate) use transition;

#[cfg(test)]
mod tests {
    use super::*;

    use crate::test_child;

    const ALL: [GState; 7] = [
        GState::Idle,
        GState::Runnable,
        GState::Running,
        GState::Syscall,
        GState::Waiting,
        GState::Dead,
        GState::Preempted,
    ];

    /// Rows are states that are left, columns those that are entered, both in the order of [`ALL`].
    const LEGAL: [[u8; 7]; 7] = [
        // id rn ru sy wa de pr
        [0, 1, 0, 0, 0, 0, 0], // idle
        [0, 0, 1, 0, 0, 1, 0], // runnable
        [0, 1, 0, 1, 1, 1, 1], // running
        [0, 1, 1, 0, 0, 0, 1], // syscall
        [0, 1, 0, 0, 0, 0, 0], // waiting
        [1, 0, 0, 0, 0, 0, 0], // dead
        [0, 1, 1, 0, 0, 0, 0], // preempted
    ];

    #[test]
    fn the_table_is_this_one_pair_by_pair() {
        for (row, from) in LEGAL.iter().zip(ALL) {
            for (&legal, to) in row.iter().zip(ALL) {
                let listed = TRANSITIONS
                    .iter()
                    .filter(|&&pair| pair == (from, to))
                    .count();
                assert_eq!(listed, usize::from(legal), "{from:?} -> {to:?}");
                let is_legal = is_transition(from as u32, to as u32);
                assert_eq!(is_legal, legal == 1, "{from:?} -> {to:?}");
            }
        }
    }

    /// From which state to which, and what makes it.
    #[cfg(not(loom))]
    type Transition = (GState, GState, fn(&G));

    /// Every transition that compiles.
    #[cfg(not(loom))]
    const ENFORCED: [Transition; 15] = {
        macro_rules! each {
            ($($from:ident => $to:ident),+) => {
                [$((GState::$from, GState::$to, |g| transition!(g, $from => $to))),+]
            };
        }
        each!(
            Idle => Runnable, Runnable => Running, Running => Runnable, Running => Waiting,
            Waiting => Runnable, Running => Dead, Runnable => Dead, Dead => Idle, Running => Syscall,
            Syscall => Running, Syscall => Runnable, Running => Preempted, Preempted => Runnable,
            Preempted => Running, Syscall => Preempted
        )
    };

    #[cfg(not(loom))]
    fn goroutine_in(state: GState) -> G {
        let sched: &'static Sched = Box::leak(Box::new(Sched::new(1, 0).unwrap()));
        sched.make_procs_idle();
        let m = sched.new_m();
        m.acquire_p(sched.take_idle_p().unwrap());
        let g = G::new(sched);
        g.id.set(7);
        g.set_m(m);
        g.state.store(state as u32, Ordering::Relaxed);
        g
    }

    /// From every state that is not the one that it begins with a transition ends the process, and says what it found.
    #[cfg(not(loom))]
    #[test]
    fn a_transition_from_another_state_ends_the_process() {
        const NAME: &str = "sched::g::tests::a_transition_from_another_state_ends_the_process";
        let number = |text: &str| text.parse::<usize>().unwrap();
        if let Some(case) = test_child::requested_case() {
            let (transition, state) = case.split_once(' ').unwrap();
            (ENFORCED[number(transition)].2)(&goroutine_in(ALL[number(state)]));
            return;
        }
        let mut ended = 0;
        for (transition, (from, to, make)) in ENFORCED.into_iter().enumerate() {
            for (state, now) in ALL.into_iter().enumerate() {
                if now == from {
                    let g = goroutine_in(now);
                    make(&g);
                    assert_eq!(g.state(), to as u32);
                    continue;
                }
                let output = test_child::run(NAME, &format!("{transition} {state}"));
                let text = test_child::stderr(&output);
                assert_eq!(test_child::signal(&output), Some(libc::SIGABRT), "{text}");
                let [now, to] = [now, to].map(|state| GState::name(state as u32));
                let expected = format!("goroutine 7 on M 0, P 0: state {now} cannot become {to}\n");
                assert!(text.contains(&expected), "{expected}: {text}");
                ended += 1;
            }
        }
        assert_eq!((ENFORCED.len(), ended), (TRANSITIONS.len(), 15 * 6));
    }

    /// A million of them and their first pages of stack are to fit into 4.6 GB.
    #[test]
    fn a_goroutine_takes_few_cache_lines() {
        // The portable switch keeps more of a goroutine that left.
        let limit = if cfg!(all(target_arch = "x86_64", not(gmp_portable_switch))) {
            256
        } else {
            384
        };
        assert!(size_of::<G>() <= limit, "{} bytes", size_of::<G>());
    }

    #[cfg(feature = "trace")]
    #[test]
    fn wait_reasons_are_those_of_the_format() {
        for &reason in WAIT_REASONS {
            assert_eq!(
                gmp_trace::tables::KNOWN_TEXTS[reason as usize],
                reason.name()
            );
        }
    }
}

//! Alarms: what happens at a deadline, the heap of each P, who fires them.
//!
//! The alarm of a sleeper is a node on its own stack, linked into the heap of the P that it slept on; that of
//! a timer of the program is part of the timer. It is fired by the M that holds that P, at a switch; by a thief
//! in its last round; or, while some M has nothing to do, by the [timekeeper](crate::sched::keeper).

use std::panic::Location;
use std::ptr::NonNull;
use std::time::Duration;

use crate::fatal::fatal;
use crate::prim::atomic::{AtomicPtr, AtomicU32, Ordering};
use crate::sched::Sched;
use crate::sched::critical;
use crate::sched::current;
use crate::sched::find;
use crate::sched::g::{Wait, WaitReason};
pub(crate) use crate::sched::life::start_from_scheduler;
use crate::sched::m::{M, PostSwitch};
use crate::sched::p::{NO_DEADLINE, P};
use crate::sched::park;
use crate::sched::refs::{GRef, PRef};
use crate::sched::ticket::{self, Ticket};
use crate::sys::clock::monotonic_ns;
use crate::time::heap::TimerNode;
use crate::trace::marks::Waker;

/// Something that is to happen at a deadline. It does not move while it is in a heap.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Alarm {
    /// First, so that the address of one is the address of the other.
    node: TimerNode,
    /// In whose heap it is, or was. Written under the lock of the heap that it goes to, and of the one that it comes
    /// from; read under the lock of that heap where it counts.
    p: AtomicPtr<P>,
    target: Target,
}

/// What happens then.
#[derive(Debug)]
enum Target {
    /// A goroutine wakes; where it waits for other things too, by the name [`ticket::TIMER`], only if this is
    /// the first one. The alarm is on its stack.
    Goroutine(GRef, Option<NonNull<Ticket>>),
    /// A timer of the program fires.
    Timer(TimerTarget),
}

#[derive(Debug)]
struct TimerTarget {
    action: &'static Action,
    sched: &'static Sched,
    /// Threads that took it out of a heap and are not done with it. Counted up under the lock of the heap.
    firing: AtomicU32,
}

/// What a timer of the program does.
#[derive(Debug)]
pub(crate) struct Action {
    /// It is due. In the scheduler: neither allocates, nor frees, nor runs code of the program. The first
    /// field of what `Fired::alarm` points to is the alarm, and it stays until [`Alarm::fired`] is called or
    /// for as long as the timer itself sees to that.
    pub(crate) fire: unsafe fn(&M, Fired),
    /// The scheduler ends, and it never will be due. On M0, when no goroutine runs. The alarm stays as in `fire`.
    pub(crate) abandon: unsafe fn(NonNull<Alarm>),
}

/// A timer of the program that is due.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fired {
    pub(crate) alarm: NonNull<Alarm>,
    /// The turn that it was put into a heap with.
    pub(crate) turn: u64,
    /// When it was due.
    pub(crate) deadline: u64,
    /// By how much it is late, in nanoseconds.
    pub(crate) late: u64,
}

/// What an alarm that was taken out of its heap asks for.
enum Due {
    /// Nothing: something else came first.
    Nothing,
    Goroutine(GRef, u64),
    Timer(&'static Action, Fired),
}

impl TimerTarget {
    /// Its owner waits from now on until [`Alarm::fired`] is called. Under the lock of the heap that it was taken
    /// out of.
    fn begin_firing(&self) -> &'static Action {
        // ordering: Relaxed: under the lock of the heap, which whoever disarms it takes, too.
        self.firing.fetch_add(1, Ordering::Relaxed);
        self.action
    }
}

impl Alarm {
    /// What wakes `g` at `deadline`, nanoseconds of the monotonic clock; where `g` waits for other things
    /// too, by the name [`ticket::TIMER`].
    pub(crate) fn new(g: GRef, deadline: u64, ticket: Option<&Ticket>) -> Alarm {
        Alarm {
            node: TimerNode::new(deadline, 0),
            p: AtomicPtr::new(std::ptr::null_mut()),
            target: Target::Goroutine(g, ticket.map(NonNull::from)),
        }
    }

    /// The alarm of a timer that a goroutine of `sched` makes. The memory of the scheduler stays while it is
    /// there.
    pub(crate) fn for_timer(sched: &'static Sched, action: &'static Action) -> Alarm {
        // ordering: Relaxed: the scheduler is alive while one of its goroutines makes a timer.
        sched.handles.fetch_add(1, Ordering::Relaxed);
        let target = TimerTarget {
            action,
            sched,
            firing: AtomicU32::new(0),
        };
        Alarm {
            node: TimerNode::new(0, 0),
            p: AtomicPtr::new(std::ptr::null_mut()),
            target: Target::Timer(target),
        }
    }

    fn timer(&self) -> &TimerTarget {
        match &self.target {
            Target::Timer(timer) => timer,
            Target::Goroutine(..) => fatal!("the alarm of a goroutine is not a timer's"),
        }
    }

    /// The P in whose heap it is, or was.
    fn p(&self) -> Option<PRef> {
        // ordering: Relaxed: the lock of the heap comes after it, and it is read again under that.
        PRef::from_ptr(self.p.load(Ordering::Relaxed))
    }

    /// Puts it into the heap of `p`. False, and nothing is done, for a timer of a scheduler that ends.
    ///
    /// # Safety
    /// It is in no heap, and stays where it is until it has been taken out.
    unsafe fn insert(alarm: NonNull<Alarm>, p: PRef) -> bool {
        let mut heap = p.timers.lock();
        // SAFETY: the caller's contract.
        let this = unsafe { alarm.as_ref() };
        if let Target::Timer(timer) = &this.target
            && timer.sched.stopping()
        {
            return false;
        }
        // ordering: Relaxed: under the lock.
        this.p.store(p.as_ptr(), Ordering::Relaxed);
        // SAFETY: the caller's contract.
        unsafe { heap.insert(alarm.cast()) };
        p.publish_next_timer(&heap);
        true
    }

    /// Takes it out of its heap; whether it was in one.
    pub(crate) fn take_out(&self) -> bool {
        loop {
            let Some(p) = self.p() else { return false };
            let mut heap = p.timers.lock();
            if self.p() != Some(p) {
                continue; // its P is gone, and it was moved meanwhile
            }
            if !self.node.is_queued() {
                return false;
            }
            // SAFETY: it is in the heap of the P that it was put on last.
            unsafe { heap.remove(NonNull::from(&self.node)) };
            p.publish_next_timer(&heap);
            return true;
        }
    }

    /// The P for a timer that the goroutine `me` arms: its own if it is of the same scheduler, else any.
    pub(crate) fn p_for(&self, me: Option<GRef>) -> PRef {
        let sched = self.timer().sched;
        match me {
            Some(me) if std::ptr::eq(me.sched, sched) => current::m_of(me).p(),
            _ => None,
        }
        .unwrap_or_else(|| sched.proc_at(0))
    }

    /// Makes the alarm of a timer go off at `deadline`, with this `turn`, from the heap of `p`. False, and
    /// nothing is done, when its scheduler ends.
    ///
    /// # Safety
    /// It is in no heap, stays where it is until it has been taken out, and nobody else arms it meanwhile.
    /// The pointer is to the whole timer.
    pub(crate) unsafe fn arm(alarm: NonNull<Alarm>, p: PRef, deadline: u64, turn: u64) -> bool {
        // SAFETY: the caller's contract.
        let (sched, armed) = unsafe {
            alarm.as_ref().node.set(deadline, turn);
            let sched = alarm.as_ref().timer().sched;
            (sched, Alarm::insert(alarm, p))
        };
        if armed {
            sched.keeper.deadline_added(sched, deadline);
        }
        armed
    }

    /// The last thing that [`Action::fire`] and [`Action::abandon`] do with a timer whose owner waits for that.
    pub(crate) fn fired(&self) {
        // ordering: Release; pairs with the Acquire load in `wait_until_fired`.
        self.timer().firing.fetch_sub(1, Ordering::Release);
    }

    /// Waits until no M fires it any more: some dozen instructions. After it was disarmed.
    pub(crate) fn wait_until_fired(&self) {
        // ordering: Acquire; pairs with the Release in `fired`.
        while self.timer().firing.load(Ordering::Acquire) != 0 {
            crate::sys::thread::sched_yield();
        }
    }

    /// What is to be done for it. Under the lock of the heap that it was taken out of, at `now`.
    fn due(&self, alarm: NonNull<Alarm>, now: u64) -> Due {
        let late = now - self.node.deadline_ns();
        match &self.target {
            Target::Goroutine(g, None) => Due::Goroutine(*g, late),
            Target::Goroutine(g, Some(ticket)) => {
                // SAFETY: the ticket is on the stack of a goroutine that takes this alarm out of its heap,
                // under the lock that is held here, before the ticket goes.
                if unsafe { ticket.as_ref() }.claim(ticket::TIMER) {
                    Due::Goroutine(*g, late)
                } else {
                    Due::Nothing
                }
            }
            Target::Timer(timer) => {
                let action = timer.begin_firing();
                let fired = Fired {
                    alarm,
                    turn: self.node.payload(),
                    deadline: self.node.deadline_ns(),
                    late,
                };
                Due::Timer(action, fired)
            }
        }
    }
}

impl Drop for Alarm {
    /// A sleeper that is cancelled unwinds while its alarm is still in a heap.
    fn drop(&mut self) {
        let is_timer = matches!(self.target, Target::Timer(_));
        // A sleeper is in the section in which it went to sleep.
        let section = critical::enter_if(current::goroutine().filter(|_| is_timer));
        self.take_out();
        drop(section);
        if let Target::Timer(timer) = &self.target {
            // ordering: Release; pairs with the Acquire load in `sched::shutdown`.
            timer.sched.handles.fetch_sub(1, Ordering::Release);
        }
    }
}

/// Puts `g` to sleep until `deadline`, nanoseconds of the monotonic clock.
pub(crate) fn sleep_until(g: GRef, deadline: u64, site: &'static Location<'static>) {
    let _section = critical::enter_to_wait(g);
    let mut timer = Alarm::new(g, deadline, None);
    let wait = Wait {
        reason: WaitReason::Sleep,
        object: 0,
        site,
    };
    park::park(g, current::m_of(g), wait, PostSwitch::Sleep(&raw mut timer));
}

/// Puts the alarm of a goroutine that waits, and has been left, on the heap of this P.
pub(crate) fn start(m: &M, alarm: *mut Alarm) {
    // SAFETY: the alarm is on the stack of a goroutine that waits until it is fired; it is in no heap yet.
    let deadline = unsafe {
        let deadline = (*alarm).node.deadline_ns();
        Alarm::insert(NonNull::new_unchecked(alarm), m.held_p());
        deadline
    };
    // The goroutine may run elsewhere now, and the alarm be gone.
    m.sched.keeper.deadline_added(m.sched, deadline);
}

/// When `duration` will be over, in nanoseconds of the monotonic clock.
pub(crate) fn deadline_after(duration: Duration) -> u64 {
    let ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    // The largest deadline means "none".
    monotonic_ns().saturating_add(ns).min(NO_DEADLINE - 1)
}

/// Fires the timers of `p` that are due; how many. The goroutines become runnable on `m`'s P.
pub(crate) fn run_due(m: &M, p: &P) -> u32 {
    let next = p.next_timer();
    if next == NO_DEADLINE {
        return 0;
    }
    let now = monotonic_ns();
    m.sched.clock.keep(now);
    if next > now {
        return 0;
    }
    let mut fired = 0;
    loop {
        let due = {
            let mut heap = p.timers.lock();
            let Some(node) = heap.pop_due(now) else {
                p.publish_next_timer(&heap);
                return fired;
            };
            // SAFETY: every node in a heap is the first field of an `Alarm`, which its owner drops after it
            // took the lock that is held here.
            unsafe { node.cast::<Alarm>().as_ref() }.due(node.cast(), now)
        };
        match due {
            Due::Nothing => continue,
            Due::Goroutine(g, late) => {
                m.tracer.timer_fired(m, Some(g), late);
                park::ready(m, g, Waker::Timer);
            }
            // SAFETY: the timer is due, and was counted as firing.
            Due::Timer(action, it) => unsafe { (action.fire)(m, it) },
        }
        fired += 1;
        if fired == 1 {
            // While this M counts as one that looks for work, those whom it makes ready wake nobody else.
            find::found_work(m);
        }
    }
}

/// Moves all alarms of `from`, which retires, to `to`, which has a smaller number.
pub(crate) fn move_all(from: PRef, to: PRef) {
    // Both locks at once, so that whoever takes an alarm out finds it in one of the two heaps.
    let mut into = to.timers.lock();
    let mut out = from.timers.lock();
    while let Some(node) = out.pop() {
        // SAFETY: every node in a heap is the first field of an `Alarm`, which is taken out under the lock of that
        // heap before it goes.
        let alarm = unsafe { node.cast::<Alarm>().as_ref() };
        // ordering: Relaxed: under the locks.
        alarm.p.store(to.as_ptr(), Ordering::Relaxed);
        // SAFETY: it was in the other heap until now.
        unsafe { into.insert(node) };
    }
    from.publish_next_timer(&out);
    to.publish_next_timer(&into);
}

/// Takes every alarm out of the heaps. At the end, when no M runs; but threads may stop and drop timers of the
/// program meanwhile.
pub(crate) fn abandon_all(sched: &Sched) {
    for p in sched.procs() {
        loop {
            let (alarm, action) = {
                let mut heap = p.timers.lock();
                let Some(node) = heap.pop() else { break };
                let alarm = node.cast::<Alarm>();
                // SAFETY: as in `run_due`.
                match unsafe { &alarm.as_ref().target } {
                    // It never runs again.
                    Target::Goroutine(..) => continue,
                    Target::Timer(timer) => (alarm, timer.begin_firing()),
                }
            };
            // SAFETY: it never will be due, and was counted as firing.
            unsafe { (action.abandon)(alarm) };
        }
    }
}

/// Fires what is due on every P; how many.
pub(crate) fn run_due_everywhere(m: &M) -> u32 {
    m.sched.procs().map(|p| run_due(m, &p)).sum()
}

/// The earliest deadline of all Ps.
pub(crate) fn earliest(sched: &Sched) -> u64 {
    sched
        .procs()
        .map(|p| p.next_timer())
        .min()
        .unwrap_or(NO_DEADLINE)
}

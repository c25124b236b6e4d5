#![doc = include_str!("README.md")]

pub(crate) mod claim;
pub(crate) mod clock;
pub(crate) mod critical;
pub(crate) mod current;
pub(crate) mod deadlock;
pub(crate) mod find;
pub(crate) mod follow;
pub(crate) mod fuzz;
pub(crate) mod g;
pub(crate) mod handoff;
pub(crate) mod idle;
pub(crate) mod implicit;
pub(crate) mod inject;
pub(crate) mod keeper;
pub(crate) mod life;
pub(crate) mod locked;
pub(crate) mod m;
pub(crate) mod mark;
pub(crate) mod netpoll;
pub(crate) mod p;
pub(crate) mod park;
mod pools;
pub(crate) mod preempt;
pub(crate) mod procs;
mod queues;
pub(crate) mod refs;
pub(crate) mod runq;
pub(crate) mod shown;
pub(crate) mod shutdown;
pub(crate) mod steal;
pub(crate) mod stw;
pub(crate) mod syscall;
pub(crate) mod sysmon;
pub(crate) mod table;
pub(crate) mod ticket;
pub(crate) mod timers;
pub(crate) mod worker;

use std::io;
use std::thread::{self, JoinHandle};

use crate::lock::{Rank, SpinLock};
use crate::prim::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use crate::sched::idle::IdleCounters;
use crate::sched::inject::GList;
use crate::sched::keeper::Keeper;
use crate::sched::m::M;
use crate::sched::netpoll::Netpoll;
use crate::sched::procs::Procs;
use crate::sched::refs::{MRef, PRef};
use crate::sched::stw::World;
use crate::sched::table::GTable;
use crate::sched::worker::Spawner;
use crate::stack::StackPool;
use crate::sys::memory_barrier::Fences;

/// What is under the scheduler's lock.
#[derive(Debug)]
pub(crate) struct Shared {
    /// The global run queue.
    pub(crate) global: GList,
    /// Goroutines that come before the others of the global queue.
    urgent: GList,
    /// Goroutines of the global queue that are frozen: see `sched::preempt`.
    pub(crate) frozen: GList,
    /// Frozen ones that were interrupted for somebody urgent before their slice was over.
    pub(crate) interrupted: GList,
    /// How many goroutines have been put into `global`, and taken out.
    global_puts: u64,
    global_takes: u64,
    /// Ms that sleep, last in first.
    idle_ms: Option<MRef>,
    idle_m_count: u32,
    /// Ms that wait for the turn of the goroutine that is locked to them. An M that is given its turn before
    /// it waits makes it negative for a moment.
    waiting_locked: i32,
    /// How many times an M went to sleep.
    sleeps: u64,
    /// Ps that nobody holds.
    idle_ps: Option<PRef>,
    /// Ps that wait for an M: one that the spawner makes, or one that has nothing else to do.
    awaiting_ps: Option<PRef>,
    /// Free goroutines.
    free: GList,
    /// Set when the goroutines that are left are being ended: nobody else makes one runnable any more.
    closed: bool,
    /// While the world is to stop, the P of the goroutine that stops it.
    stopper: Option<PRef>,
}

impl Shared {
    /// Puts `p` on the idle list. The caller counts it.
    pub(crate) fn put_idle_p(&mut self, p: PRef) {
        p.link.set(self.idle_ps);
        self.idle_ps = Some(p);
    }

    fn take_idle_p(&mut self) -> Option<PRef> {
        let p = self.idle_ps?;
        self.idle_ps = p.link.take();
        Some(p)
    }

    /// Takes `p` out of the idle list, if it is there.
    fn take_this_idle_p(&mut self, p: PRef) -> bool {
        let mut before: Option<PRef> = None;
        let mut at = self.idle_ps;
        while let Some(here) = at {
            let next = here.link.get();
            if here == p {
                match before {
                    Some(before) => before.link.set(next),
                    None => self.idle_ps = next,
                }
                p.link.set(None);
                return true;
            }
            (before, at) = (at, next);
        }
        false
    }

    /// Puts `m` on the list of those that sleep.
    pub(crate) fn put_idle_m(&mut self, m: MRef) {
        m.idle_link.set(self.idle_ms);
        self.idle_ms = Some(m);
        self.idle_m_count += 1;
        self.sleeps += 1;
    }

    /// Counts an M that waits for the turn of its goroutine.
    pub(crate) fn add_waiting_locked(&mut self) {
        self.waiting_locked += 1;
        self.sleeps += 1;
    }

    fn take_idle_m(&mut self) -> Option<MRef> {
        let m = self.idle_ms?;
        self.idle_ms = m.idle_link.take();
        self.idle_m_count -= 1;
        Some(m)
    }

    fn put_awaiting_p(&mut self, p: PRef) {
        p.link.set(self.awaiting_ps);
        self.awaiting_ps = Some(p);
    }

    /// A P that waits for an M.
    fn take_awaiting_p(&mut self) -> Option<PRef> {
        let p = self.awaiting_ps?;
        self.awaiting_ps = p.link.take();
        Some(p)
    }
}

/// One scheduler.
#[derive(Debug)]
pub(crate) struct Sched {
    pub(crate) shared: SpinLock<Shared>,
    /// The length of the global queue. Written under the lock.
    global_len: AtomicU32,
    /// How many of them are frozen. Written under the lock.
    frozen_len: AtomicU32,
    /// How many of them come before the others. Written under the lock.
    urgent_len: AtomicU32,
    /// Whether timers of a P are due whose M does not look. The monitor's.
    timers_late: AtomicBool,
    pub(crate) idle: IdleCounters,
    pub(crate) procs: Procs,
    pub(crate) follow: follow::Follow,
    /// Every M, in the order of their numbers. Only the spawner and the thread of `run` add to it.
    #[expect(clippy::vec_box, reason = "an M stays where it is when the list grows")]
    ms: SpinLock<Vec<Box<M>>>,
    pub(crate) table: GTable,
    /// The size class of the stacks of goroutines that begin to run.
    stack_class: AtomicU8,
    /// The stacks of the process.
    pub(crate) stacks: &'static StackPool,
    /// The time to within some milliseconds.
    pub(crate) clock: clock::CoarseClock,
    pub(crate) keeper: Keeper,
    pub(crate) netpoll: Netpoll,
    pub(crate) spawner: Spawner,
    pub(crate) sysmon: sysmon::Sysmon,
    pub(crate) world: World,
    next_id: AtomicU64,
    /// For how long goroutines have waited for mutexes, in nanoseconds.
    mutex_wait_ns: AtomicU64,
    /// How many Ms there are, whose threads have not ended.
    m_total: AtomicU32,
    /// Threads of the scheduler that are no Ms.
    pub(crate) helper_threads: AtomicU32,
    /// Whether threads that are not the scheduler's may wake goroutines.
    pub(crate) threads_wake: bool,
    /// Whether goroutines are preempted outside the runtime, too. Before the start.
    pub(crate) signals: bool,
    /// The signal that preempts them. Before the start.
    pub(crate) signal: i32,
    /// Whether this is the copy of the scheduler in a child that `fork` made, where one thread is left of all.
    forked: AtomicBool,
    /// Whether Ps are taken from goroutines in system calls that were not announced. Before the start.
    pub(crate) finds_calls: bool,
    /// How many goroutines have lost their P that way and have not come back. Written under the lock.
    without_p: AtomicU32,
    stopping: AtomicBool,
    /// Whether some M is reporting that all goroutines are asleep.
    deadlock_reported: AtomicBool,
    /// Handles through which somebody may still reach a goroutine when the scheduler has ended.
    pub(crate) handles: AtomicU64,
    /// Threads and goroutines of other schedulers that are about to use this one.
    visitors: AtomicU32,
    /// Its collection cycles.
    pub(crate) collection: crate::gc::Collection,
    /// What the tracer knows of this scheduler.
    pub(crate) tracer: crate::trace::SchedTrace,
}

impl Sched {
    /// A scheduler with `procs` Ps, all idle.
    ///
    /// # Errors
    /// When the kernel gives no address space for goroutines or stacks, or no descriptors for the network.
    pub(crate) fn new(procs: usize, stack_class: u8) -> io::Result<Sched> {
        let fences = Fences::detect();
        let sched = Sched {
            shared: SpinLock::new(
                Rank::Sched,
                Shared {
                    global: GList::new(),
                    urgent: GList::new(),
                    frozen: GList::new(),
                    interrupted: GList::new(),
                    global_puts: 0,
                    global_takes: 0,
                    idle_ms: None,
                    idle_m_count: 0,
                    waiting_locked: 0,
                    sleeps: 0,
                    idle_ps: None,
                    awaiting_ps: None,
                    free: GList::new(),
                    closed: false,
                    stopper: None,
                },
            ),
            global_len: AtomicU32::new(0),
            frozen_len: AtomicU32::new(0),
            urgent_len: AtomicU32::new(0),
            timers_late: AtomicBool::new(false),
            idle: IdleCounters::new(fences),
            procs: Procs::new(procs as u32, stack_class),
            follow: follow::Follow::default(),
            ms: SpinLock::new(Rank::Sched, Vec::new()),
            table: GTable::reserve()?,
            stack_class: AtomicU8::new(stack_class),
            stacks: StackPool::global().map_err(io::Error::other)?,
            clock: clock::CoarseClock::new(),
            keeper: Keeper::new(),
            netpoll: Netpoll::new()?,
            spawner: Spawner::new(),
            sysmon: sysmon::Sysmon::default(),
            world: World::new(fences),
            next_id: AtomicU64::new(1),
            mutex_wait_ns: AtomicU64::new(0),
            m_total: AtomicU32::new(0),
            helper_threads: AtomicU32::new(0),
            threads_wake: true,
            signals: false,
            signal: crate::sys::signal::PREEMPTION,
            forked: AtomicBool::new(false),
            finds_calls: false,
            without_p: AtomicU32::new(0),
            stopping: AtomicBool::new(false),
            deadlock_reported: AtomicBool::new(false),
            handles: AtomicU64::new(0),
            visitors: AtomicU32::new(0),
            collection: crate::gc::Collection::new(fences),
            tracer: crate::trace::SchedTrace::new(fences),
        };
        Ok(sched)
    }

    /// Whether the end has begun.
    #[inline(always)]
    pub(crate) fn stopping(&self) -> bool {
        // ordering: Acquire; pairs with the Release store in `begin_stop`.
        self.stopping.load(Ordering::Acquire)
    }

    /// Begins the end.
    pub(crate) fn begin_stop(&self) {
        // ordering: Release; pairs with the Acquire load in `stopping`.
        self.stopping.store(true, Ordering::Release);
    }

    /// Whether this is the copy in a child that `fork` made.
    pub(crate) fn is_forked(&self) -> bool {
        // ordering: Relaxed: one thread.
        self.forked.load(Ordering::Relaxed)
    }

    /// In the child that `fork` made: nobody is preempted, and nothing is recorded into the trace of the parent.
    pub(crate) fn after_fork(&self) {
        // ordering: Relaxed: one thread.
        self.forked.store(true, Ordering::Relaxed);
        self.tracer.forget();
        self.world.after_fork();
    }

    /// How many goroutines have lost their P in a system call that was not announced.
    pub(crate) fn without_p(&self) -> u32 {
        // ordering: Relaxed: a hint.
        self.without_p.load(Ordering::Relaxed)
    }

    /// So many more have. Under the lock.
    pub(crate) fn add_without_p(&self, more: i32) {
        // ordering: Relaxed: under the lock.
        let now = self.without_p().wrapping_add_signed(more);
        // ordering: Relaxed, as above.
        self.without_p.store(now, Ordering::Relaxed);
    }

    /// A goroutine has waited `ns` nanoseconds for a mutex.
    pub(crate) fn count_mutex_wait(&self, ns: u64) {
        // ordering: Relaxed: a sum.
        self.mutex_wait_ns.fetch_add(ns, Ordering::Relaxed);
    }

    /// For how long goroutines have waited for mutexes, in nanoseconds.
    pub(crate) fn mutex_wait_ns(&self) -> u64 {
        // ordering: Relaxed: a sum.
        self.mutex_wait_ns.load(Ordering::Relaxed)
    }

    /// The size class of the stacks of goroutines that begin to run.
    #[inline(always)]
    pub(crate) fn stack_class(&self) -> u8 {
        // ordering: Relaxed: a number.
        self.stack_class.load(Ordering::Relaxed)
    }

    /// Changes it; what it was.
    pub(crate) fn set_stack_class(&self, class: u8) -> u8 {
        // ordering: Relaxed: a number.
        self.stack_class.swap(class, Ordering::Relaxed)
    }

    // ---- Ms

    /// A new M, without a thread yet.
    pub(crate) fn new_m(&'static self) -> MRef {
        // Whoever waits for the lock must not wait for an allocator, too. Nobody else makes an M meanwhile.
        let (count, capacity) = {
            let ms = self.ms.lock();
            (ms.len(), ms.capacity())
        };
        let mut longer = Vec::with_capacity(if count == capacity { 2 * count + 8 } else { 0 });
        let m = Box::new(M::new(count as u64, self));
        let reference = m.reference();
        let mut ms = self.ms.lock();
        if count == capacity {
            std::mem::swap(&mut *ms, &mut longer);
            ms.append(&mut longer);
        }
        ms.push(m);
        // ordering: Relaxed: the M has no P yet.
        self.m_total.fetch_add(1, Ordering::Relaxed);
        drop(ms);
        reference
    }

    /// Forgets the last M that was made: its thread could not be.
    pub(crate) fn forget_last_m(&self) {
        let mut ms = self.ms.lock();
        let last = ms.pop();
        // ordering: Relaxed, as in `new_m`.
        self.m_total.fetch_sub(1, Ordering::Relaxed);
        drop(ms);
        drop(last);
    }

    /// How many Ms there are, whose threads have not ended.
    pub(crate) fn m_count(&self) -> usize {
        // ordering: Relaxed: a count.
        self.m_total.load(Ordering::Relaxed) as usize
    }

    /// The thread of an M ends for good. It counts as a thread of ours until it is gone.
    pub(crate) fn m_ends(&self) {
        // ordering: Relaxed, both: counts; the thread is still there.
        self.helper_threads.fetch_add(1, Ordering::Relaxed);
        self.m_total.fetch_sub(1, Ordering::Relaxed);
    }

    /// The calling thread, which counts as a helper, is about to be gone.
    pub(crate) fn helper_ends(&self) {
        // ordering: Relaxed: a count.
        self.helper_threads.fetch_sub(1, Ordering::Relaxed);
    }

    /// Calls `f` with all Ms.
    #[cfg(feature = "trace")]
    pub(crate) fn with_ms<R>(&self, f: impl FnOnce(&[Box<M>]) -> R) -> R {
        f(&self.ms.lock())
    }

    /// The M with number `index`.
    pub(crate) fn m_at(&self, index: usize) -> Option<MRef> {
        self.ms.lock().get(index).map(|m| m.reference())
    }

    /// Calls `f` for every M.
    pub(crate) fn for_each_m(&self, mut f: impl FnMut(MRef)) {
        for m in self.ms.lock().iter() {
            f(m.reference());
        }
    }

    /// Whether nothing runs, nothing waits to run, and nothing of the scheduler's will make anything run.
    /// Under the lock.
    pub(crate) fn is_asleep(&self, shared: &Shared) -> bool {
        // ordering: Relaxed: Ms are counted before they have a P, and nobody has one here.
        let ms = self.m_total.load(Ordering::Relaxed);
        i64::from(shared.idle_m_count) + i64::from(shared.waiting_locked) == i64::from(ms)
            && self.idle.idle_ps() == self.proc_count()
            && shared.queued() == 0
            && shared.awaiting_ps.is_none()
            && timers::earliest(self) == p::NO_DEADLINE
            && !self.collection.is_pending()
            && !netpoll::has_waiters(self)
            && self.procs().all(|p| p.runq.is_empty())
    }

    /// [`Sched::is_asleep`], and since which sleep of an M: whoever ran meanwhile went to sleep again.
    pub(crate) fn asleep_since(&self) -> Option<u64> {
        let shared = self.shared.lock();
        self.is_asleep(&shared).then_some(shared.sleeps)
    }

    /// Threads that this scheduler has made, the one that called `run`, and the process's own.
    pub(crate) fn own_threads(&self) -> usize {
        // ordering: Relaxed: a thread is counted before it is made.
        self.helper_threads.load(Ordering::Relaxed) as usize
            + self.m_count()
            + crate::sys::thread::CountedThread::count()
    }

    /// Makes a thread that is no M. It counts as one of ours, so that the report of deadlocks does not
    /// take it for a thread of the program.
    pub(crate) fn spawn_helper<R: Send + 'static>(
        &self,
        name: &str,
        work: impl FnOnce() -> R + Send + 'static,
    ) -> io::Result<JoinHandle<R>> {
        const STACK: usize = 256 << 10;
        // ordering: Relaxed: counted before it is made.
        self.helper_threads.fetch_add(1, Ordering::Relaxed);
        let builder = thread::Builder::new().name(name.into()).stack_size(STACK);
        let made = builder.spawn(work);
        if made.is_err() {
            // ordering: Relaxed: it was never there.
            self.helper_threads.fetch_sub(1, Ordering::Relaxed);
        }
        made
    }

    /// How many Ms wait for the turn of the goroutine that is locked to them.
    pub(crate) fn waiting_locked(&self) -> u32 {
        u32::try_from(self.shared.lock().waiting_locked).unwrap_or(0)
    }

    /// How many Ms sleep in the idle list.
    pub(crate) fn idle_m_count(&self) -> u32 {
        self.shared.lock().idle_m_count
    }

    /// After work was put on a queue: sees to it that somebody looks, if somebody idle could (Go's
    /// `wakep`).
    #[inline(always)]
    pub(crate) fn wake_p_if_needed(&self) {
        if self.idle.submit_needs_wake() {
            self.wake_p();
        }
    }

    /// Gives an idle P to an M that spins; the caller has counted it as spinning.
    #[cold]
    #[inline(never)]
    pub(crate) fn wake_p(&self) {
        let given = {
            let mut shared = self.shared.lock();
            let p = if self.stopping() {
                None
            } else {
                self.take_idle_p_locked(&mut shared)
            };
            let Some(p) = p else {
                // Under the lock that showed that there is none.
                self.idle.cancel_wake();
                return;
            };
            self.give(&mut shared, p, true)
        };
        self.complete(given);
    }

    /// An idle P for the caller.
    pub(crate) fn take_idle_p(&self) -> Option<PRef> {
        self.take_idle_p_locked(&mut self.shared.lock())
    }

    /// Whether Ps stay where they are because the world is to stop. Under the lock.
    fn keeps_ps(&self) -> bool {
        self.world.is_to_stop() && !self.stopping()
    }

    /// [`Sched::take_idle_p`] for whoever has the lock. None while the world is to stop.
    pub(crate) fn take_idle_p_locked(&self, shared: &mut Shared) -> Option<PRef> {
        if self.keeps_ps() {
            return None;
        }
        let p = shared.take_idle_p()?;
        self.idle.p_left_idle();
        self.sysmon.p_left_idle();
        Some(p)
    }

    /// A P for an M that is back from a system call: the one it had if that is idle, else any that is idle, else
    /// one that waits for an M; then also whether that M counts as spinning.
    pub(crate) fn take_p_after_call(&self, had: PRef) -> Option<(PRef, bool)> {
        let mut shared = self.shared.lock();
        if self.keeps_ps() {
            return None;
        }
        if shared.take_this_idle_p(had) {
            self.idle.p_left_idle();
            self.sysmon.p_left_idle();
            return Some((had, false));
        }
        if let Some(p) = self.take_idle_p_locked(&mut shared) {
            return Some((p, false));
        }
        let p = self.take_awaiting_p_locked(&mut shared)?;
        Some((p, p.awaits_spinning.get()))
    }

    /// A P that waits for an M to be made.
    pub(crate) fn take_awaiting_p(&self) -> Option<PRef> {
        self.take_awaiting_p_locked(&mut self.shared.lock())
    }

    /// [`Sched::take_awaiting_p`] for whoever has the lock. None while the world is to stop.
    pub(crate) fn take_awaiting_p_locked(&self, shared: &mut Shared) -> Option<PRef> {
        if self.keeps_ps() {
            return None;
        }
        shared.take_awaiting_p()
    }

    /// Puts `p`, for which no M could be made, on the idle list, and withdraws the claim to spin.
    pub(crate) fn take_back(&self, p: PRef) {
        let mut shared = self.shared.lock();
        if p.awaits_spinning.replace(false) {
            self.idle.cancel_wake();
        }
        shared.put_idle_p(p);
        self.idle.p_became_idle();
    }

    /// Whether a goroutine is on a run queue. Outdated as soon as it is known.
    pub(crate) fn work_waits(&self) -> bool {
        self.global_len() != 0 || self.procs().any(|p| !p.runq.is_empty())
    }

    /// Gives the stacks that idle Ps keep back to the process.
    pub(crate) fn flush_idle_stacks(&self) {
        let shared = self.shared.lock();
        let mut next = shared.idle_ps;
        while let Some(p) = next {
            // SAFETY: nobody holds a P of the idle list, and none leaves it while the lock is held.
            unsafe { (*p.stacks.get()).flush(self.stacks) };
            next = p.link.get();
        }
    }

    /// Gives the stacks that Ps keep back to the process. At the end, when no M runs.
    pub(crate) fn flush_stacks(&self) {
        for p in self.procs() {
            // SAFETY: nobody holds a P any more.
            unsafe { (*p.stacks.get()).flush(self.stacks) };
        }
    }
}

/// Keeps a scheduler from being freed while a thread that is not one of its Ms uses it.
///
/// Begins while something that the scheduler's end waits for cannot go on: a goroutine that waits and can
/// be found, a handle that is not released.
#[derive(Debug)]
pub(crate) struct Visit(&'static Sched);

impl Visit {
    pub(crate) fn new(sched: &'static Sched) -> Visit {
        // ordering: Relaxed: the lock or word that keeps the scheduler from ending comes after it.
        sched.visitors.fetch_add(1, Ordering::Relaxed);
        Visit(sched)
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        // ordering: Release; pairs with the Acquire in `wait_for_visitors`. Nothing of the scheduler is used
        // after this.
        self.0.visitors.fetch_sub(1, Ordering::Release);
    }
}

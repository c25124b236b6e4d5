//! Facts about the calling thread and process, and the processors they may use.

use super::check;
use crate::prim::process_wide::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use std::io::{self, Write as _};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::null_mut;
use std::thread::{Builder, JoinHandle};

/// Sends `signal` to the thread `tid` of this process. Async-signal-safe.
pub(crate) fn send_signal(tid: i32, signal: i32) {
    // SAFETY: numbers only. A thread that is gone is an error of the call, which does nothing then.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), tid, signal) };
}

/// The kernel's number of the calling thread. Async-signal-safe.
pub(crate) fn gettid() -> i32 {
    // SAFETY: the call has no arguments and cannot fail.
    unsafe { libc::gettid() }
}

/// Lets another thread of the same processor run. Async-signal-safe.
#[inline]
pub(crate) fn sched_yield() {
    // SAFETY: the call has no arguments; on Linux it cannot fail.
    unsafe { libc::sched_yield() };
}

/// How many processors the calling thread may run on, at least 1.
///
/// # Errors
///
/// When the kernel refuses the question, or knows more than 65 536 processors.
pub(crate) fn available_cpus() -> io::Result<usize> {
    const BITS: usize = libc::c_ulong::BITS as usize;
    const MAX_CPUS: usize = 65_536;
    let mut words = 16; // 1024 processors, what most kernels are made for
    loop {
        let mut mask = vec![0 as libc::c_ulong; words];
        // SAFETY: the buffer is valid for writing `words` words, because it was just made so long.
        let result =
            unsafe { libc::sched_getaffinity(0, size_of_val(&mask[..]), mask.as_mut_ptr().cast()) };
        match check(result) {
            Ok(_) => {
                let count: u32 = mask.iter().map(|word| word.count_ones()).sum();
                return Ok((count as usize).max(1));
            }
            // The kernel's mask is longer than ours.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) && words * BITS < MAX_CPUS => {
                words *= 2;
            }
            Err(error) => return Err(error),
        }
    }
}

/// How many threads the process has; `None` where `/proc` does not say. The kernel's own count: a list of them
/// (`/proc/self/task`) may leave one out while others end.
pub(crate) fn thread_count() -> Option<usize> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The second field, a name in parentheses, may have anything in it. This is the twentieth.
    let (_, fields) = stat.rsplit_once(") ")?;
    fields.split(' ').nth(17)?.parse().ok()
}

/// How many [`CountedThread`]s there are.
static COUNTED: AtomicUsize = AtomicUsize::new(0);

/// A thread of ours that belongs to no runtime; counted, so that it can be told from the program's.
#[derive(Debug)]
pub(crate) struct CountedThread(JoinHandle<()>);

impl CountedThread {
    /// Makes a thread that does `work`.
    ///
    /// # Errors
    ///
    /// When the kernel gives no thread.
    pub(crate) fn spawn(name: &str, work: fn()) -> io::Result<CountedThread> {
        // ordering: Relaxed: counted before it is made.
        COUNTED.fetch_add(1, Ordering::Relaxed);
        let made = Builder::new().name(name.into()).spawn(work);
        if made.is_err() {
            // ordering: Relaxed: it was never there.
            COUNTED.fetch_sub(1, Ordering::Relaxed);
        }
        made.map(CountedThread)
    }

    /// Waits until it has ended.
    pub(crate) fn join(self) -> std::thread::Result<()> {
        let result = self.0.join();
        // ordering: Relaxed: it is gone.
        COUNTED.fetch_sub(1, Ordering::Relaxed);
        result
    }

    /// How many there are.
    pub(crate) fn count() -> usize {
        // ordering: Relaxed: a thread is counted before it is made.
        COUNTED.load(Ordering::Relaxed)
    }
}

/// Calls `child` in every child that `fork` makes from now on.
///
/// # Errors
///
/// When there is no memory for it.
pub(crate) fn call_in_children(child: fn()) -> io::Result<()> {
    static CHILD: AtomicPtr<()> = AtomicPtr::new(null_mut());
    extern "C" fn on_fork() {
        // ordering: Relaxed: one thread.
        FORKED.store(true, Ordering::Relaxed);
        // ordering: Acquire; pairs with the swap below.
        let child = CHILD.load(Ordering::Acquire);
        // SAFETY: stored from such a function before this one was registered.
        let child: Option<fn()> = unsafe { std::mem::transmute(child) };
        child.into_iter().for_each(|child| child());
    }
    // ordering: AcqRel; pairs with the load in `on_fork`.
    if !CHILD.swap(child as *mut (), Ordering::AcqRel).is_null() {
        return Ok(());
    }
    // SAFETY: the function stays as long as the process.
    match unsafe { libc::pthread_atfork(None, None, Some(on_fork)) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// Whether the process is a child that `fork` made since [`call_in_children`].
static FORKED: AtomicBool = AtomicBool::new(false);

/// Whether the process is a child that `fork` made after the first runtime was built: locks may be those of threads that
/// are not here.
pub(crate) fn is_child_of_fork() -> bool {
    // ordering: Relaxed: written before the child has another thread.
    FORKED.load(Ordering::Relaxed)
}

/// Ends the process at once: no destructors, no flushing.
pub(crate) fn exit_now(code: i32) -> ! {
    // SAFETY: _exit has no preconditions.
    unsafe { libc::_exit(code) }
}

/// Sets by how many nanoseconds the kernel may delay the calling thread's timeouts to save wake-ups
/// (50 000 unless told).
///
/// # Errors
///
/// When the kernel refuses.
pub(crate) fn set_timer_slack(ns: u64) -> io::Result<()> {
    let ns = libc::c_ulong::try_from(ns).unwrap_or(libc::c_ulong::MAX);
    // SAFETY: PR_SET_TIMERSLACK takes one number and touches no memory of ours.
    check(unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, ns, 0, 0, 0) }).map(drop)
}

/// Where the kernel says what one thread does, kept open.
#[derive(Debug)]
pub(crate) struct TaskState(OwnedFd);

impl TaskState {
    /// Of the thread `tid` of this process; `None` where `/proc` does not say. Does not allocate.
    pub(crate) fn of(tid: i32) -> Option<TaskState> {
        let mut path = [0; 64];
        // The last byte stays zero.
        let mut rest = &mut path[..63];
        write!(rest, "/proc/self/task/{tid}/stat").ok()?;
        // SAFETY: the path ends with a zero.
        let fd = unsafe { libc::open(path.as_ptr().cast(), libc::O_RDONLY | libc::O_CLOEXEC) };
        // SAFETY: a descriptor that was opened just now.
        check(fd)
            .ok()
            .map(|fd| TaskState(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Whether the thread waits for something in the kernel. False if it is gone.
    pub(crate) fn is_waiting(&self) -> bool {
        matches!(self.letter(), Some(b'S' | b'D'))
    }

    /// Whether it waits for something that signals do not interrupt: a disk, the end of a `vfork`.
    pub(crate) fn is_uninterruptible(&self) -> bool {
        self.letter() == Some(b'D')
    }

    fn letter(&self) -> Option<u8> {
        let mut text = [0_u8; 64];
        // SAFETY: the buffer is a local variable of this length.
        let read =
            unsafe { libc::pread(self.0.as_raw_fd(), text.as_mut_ptr().cast(), text.len(), 0) };
        let text = text.get(..read.max(0) as usize).unwrap_or_default();
        // "4711 (name) S 1 …"; the name may have any character, and fifteen at most.
        let after = text.iter().rposition(|&byte| byte == b')');
        after.and_then(|at| text.get(at + 2)).copied()
    }
}

/// Asks the kernel to let the calling thread run soon when it wakes, for `ns` nanoseconds at a time. Kernels before
/// Linux 6.12 take no notice.
///
/// # Errors
///
/// When the kernel refuses.
pub(crate) fn set_time_slice(ns: u64) -> io::Result<()> {
    // SAFETY: all-zero is valid for the kernel's structure of numbers.
    let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
    let size = size_of::<libc::sched_attr>() as libc::c_uint;
    // SAFETY: a local variable of this size; 0 is the calling thread.
    let got = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0) };
    check(got as libc::c_int)?;
    attributes.sched_runtime = ns;
    // SAFETY: as above.
    let set = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    check(set as libc::c_int).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_have_numbers_of_their_own() {
        let mine = gettid();
        let other = std::thread::spawn(gettid).join().unwrap();
        assert_ne!(mine, other);
        assert!(mine > 0 && other > 0);
    }

    #[test]
    fn a_thread_that_waits_is_told_from_one_that_runs() {
        let mine = gettid();
        let running = std::thread::spawn(move || TaskState::of(mine).unwrap().is_waiting());
        while !running.is_finished() {}
        assert!(!running.join().unwrap());
        let (tell, told) = std::sync::mpsc::channel();
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let waiter = std::thread::Builder::new().name("a) R 1 2".into());
        let waiter = waiter.spawn(move || {
            tell.send(gettid()).unwrap();
            assert!(stopped.recv().is_err());
        });
        let state = TaskState::of(told.recv().unwrap()).unwrap();
        while !state.is_waiting() {
            sched_yield();
        }
        drop(stop);
        waiter.unwrap().join().unwrap();
        assert!(!state.is_waiting(), "it is gone");
    }

    #[test]
    fn the_processor_count_follows_the_affinity() {
        let all = available_cpus().unwrap();
        assert!(all >= 1);
        let one = std::thread::spawn(|| {
            // SAFETY: all-zero is a valid set, and the set is a local variable of this size.
            let result = unsafe {
                let mut allowed: libc::cpu_set_t = std::mem::zeroed();
                libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut allowed);
                let first = (0..1024)
                    .find(|&cpu| libc::CPU_ISSET(cpu, &allowed))
                    .unwrap();
                let mut only: libc::cpu_set_t = std::mem::zeroed();
                libc::CPU_SET(first, &mut only);
                libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &only)
            };
            assert_eq!(result, 0);
            available_cpus().unwrap()
        });
        assert_eq!(one.join().unwrap(), 1);
        assert_eq!(available_cpus().unwrap(), all, "other threads keep theirs");
    }

    #[test]
    fn timer_slack_is_set() {
        std::thread::spawn(|| {
            set_timer_slack(1_000).unwrap();
            // SAFETY: PR_GET_TIMERSLACK takes no argument.
            assert_eq!(unsafe { libc::prctl(libc::PR_GET_TIMERSLACK) }, 1_000);
        })
        .join()
        .unwrap();
    }
}

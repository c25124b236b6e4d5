//! All goroutines are asleep: nothing can ever run again.
//!
//! The last M that goes to sleep looks ([`Sched::is_asleep`]): every M sleeps, every P is idle, no queue has
//! a goroutine, no timer waits, no thread is being made. Only a thread that is not the scheduler's could
//! still wake somebody, so while one lives there is no verdict, unless the builder says that such threads do
//! not wake goroutines. All of this is read under the scheduler's lock, at one moment, and a goroutine that
//! runs keeps its M awake. Threads are counted by the kernel, between two such looks without anybody running: there
//! is no false alarm.
//!
//! The report is Go's: `fatal error: all goroutines are asleep - deadlock!`, every goroutine with what it
//! waits for and where, exit code 2.

use crate::debug::dump;
use crate::fatal;
use crate::prim::atomic::Ordering;
use crate::sched::Sched;
use crate::sys::thread::{exit_now, thread_count};

/// The exit code of a deadlock, as in Go.
const EXIT_CODE: i32 = 2;

/// Called by an M that saw [`Sched::is_asleep`] when it went to sleep.
#[cold]
pub(crate) fn check(sched: &'static Sched) {
    if !sched.threads_wake && !sched.stopping() {
        return report(sched);
    }
    let since = sched.asleep_since();
    let own = sched.own_threads();
    // More threads than ours: somebody else may wake a goroutine. Where the kernel does not say, the same.
    if since.is_none() || thread_count().is_none_or(|all| all > own) || sched.stopping() {
        return;
    }
    // Counting took a while. A thread that was on its way out may have woken a goroutine before, which has made another
    // thread since, and waits for that.
    if sched.asleep_since() == since {
        report(sched);
    }
}

/// Called by a thread that is no M and has taken a reason to be awake away.
pub(crate) fn check_if_asleep(sched: &'static Sched) {
    if sched.asleep_since().is_some() {
        check(sched);
    }
}

fn report(sched: &'static Sched) {
    // An M that was made meanwhile goes to sleep, too, and finds the same.
    // ordering: Relaxed: one of them reports.
    if sched.deadlock_reported.swap(true, Ordering::Relaxed) {
        return;
    }
    // The trace of a program that hangs is worth reading.
    crate::trace::end(sched);
    fatal::report(format_args!(
        "fatal error: all goroutines are asleep - deadlock!\n\n"
    ));
    let (mut frames, mut all) = (dump::Frames::new(), dump::Snapshot::with_room_for(sched));
    all.take(sched, None, &mut frames);
    fatal::report_by(|out| all.write(&mut frames, out));
    exit_now(EXIT_CODE)
}

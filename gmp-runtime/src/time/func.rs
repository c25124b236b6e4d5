//! Functions that run at a time: Go's `time.AfterFunc`.

use std::fmt;
use std::panic::Location;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use super::schedule::Schedule;
use crate::sched::m::M;
use crate::sched::timers::{self, Action, Alarm, Fired};

/// How long a timer waits when there can be no more goroutines.
const UNTIL_THERE_IS_A_GOROUTINE: Duration = Duration::from_millis(1);

/// A timer that runs a function on a goroutine. While it is armed, the schedule has one of its references:
/// it stays although nobody has a handle. Whoever disarms it takes that reference over.
#[repr(C)]
struct Calling {
    schedule: Schedule,
    site: &'static Location<'static>,
    function: Box<dyn Fn() + Send + Sync>,
}

static CALL: Action = Action { fire, abandon };

/// # Safety
/// As [`Action::fire`]; the alarm is that of a [`Calling`].
unsafe fn fire(m: &M, fired: Fired) {
    let place = fired.alarm.cast::<Calling>();
    // SAFETY: the last reference is dropped outside the scheduler, and dropping waits until it has fired.
    let timer = unsafe { place.as_ref() };
    {
        let locked = timer.schedule.lock();
        if locked.comes_due(fired.turn) {
            // SAFETY: it was armed, so this reference was its schedule's.
            let reference = unsafe { Arc::from_raw(place.as_ptr().cast_const()) };
            let call = move || (reference.function)();
            match timers::start_from_scheduler(m, call, timer.site) {
                Ok(g) => m.tracer.timer_fired(m, Some(g), fired.late),
                Err(call) => {
                    // The reference is the schedule's again; at the end of the scheduler, nobody's.
                    std::mem::forget(call);
                    // SAFETY: it came due, so it is disarmed; it stays, as above.
                    unsafe { locked.arm(place, UNTIL_THERE_IS_A_GOROUTINE) };
                }
            }
        }
    }
    timer.schedule.fired();
}

/// # Safety
/// As [`Action::abandon`]; the alarm is that of a [`Calling`].
unsafe fn abandon(alarm: NonNull<Alarm>) {
    let place = alarm.cast::<Calling>();
    // SAFETY: dropping the timer waits until it has fired.
    let timer = unsafe { place.as_ref() };
    let was_armed = timer.schedule.lock().disarm();
    timer.schedule.fired();
    if was_armed {
        // SAFETY: it was armed, so this reference was its schedule's, and keeps it until here.
        drop(unsafe { Arc::from_raw(place.as_ptr().cast_const()) });
    }
}

/// The handle of a function that [`after_func`] runs. Dropping it changes nothing.
pub struct FuncTimer {
    timer: Arc<Calling>,
}

/// Runs `function` on a goroutine of its own after `duration`: Go's `time.AfterFunc`.
///
/// Does not block. The function can run more than once, also at the same time as itself, because the timer
/// can be [reset](FuncTimer::reset). When the runtime ends before, it does not run, and is dropped on the
/// thread of [`Runtime::run`](crate::Runtime::run).
///
/// # Panics
/// On a thread that runs no goroutine.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use gmp_runtime::{channel, time::after_func};
///
/// # let runtime = gmp_runtime::Runtime::builder().procs(1).build()?;
/// // SAFETY: nothing in here keeps a reference into a thread-local across a call that may park.
/// unsafe {
///     runtime.run(|| {
///         let (sender, receiver) = channel(1);
///         after_func(Duration::from_millis(1), move || sender.send(42).unwrap());
///         assert_eq!(receiver.recv(), Ok(42));
///     })
/// };
/// # Ok::<(), std::io::Error>(())
/// ```
#[track_caller]
pub fn after_func(duration: Duration, function: impl Fn() + Send + Sync + 'static) -> FuncTimer {
    let timer = Arc::new(Calling {
        schedule: Schedule::new(&CALL),
        site: Location::caller(),
        function: Box::new(function),
    });
    let handle = FuncTimer { timer };
    handle.reset(duration);
    handle
}

impl FuncTimer {
    /// Stops it: true if that prevents the function from running. False if it has been started (it may still
    /// run), or the timer was stopped already. Does not block; works on any thread.
    pub fn stop(&self) -> bool {
        let was_armed = self.timer.schedule.lock().disarm();
        if was_armed {
            self.drop_schedules_reference();
        }
        was_armed
    }

    /// After it was disarmed.
    fn drop_schedules_reference(&self) {
        // SAFETY: it was armed, so there is one reference besides the handle's that nobody else drops.
        drop(unsafe { Arc::from_raw(Arc::as_ptr(&self.timer)) });
    }

    /// Makes the function run after `duration`, whatever it was set to before. Returns what
    /// [`stop`](FuncTimer::stop) would. Does not block; works on any thread.
    pub fn reset(&self, duration: Duration) -> bool {
        let locked = self.timer.schedule.lock();
        let was_armed = locked.disarm();
        // The schedule's reference, if it is armed, which keeps it where it is.
        let mut reference = Some(Arc::clone(&self.timer));
        // SAFETY: it was disarmed; the pointer of an `Arc` is never null.
        let armed = unsafe {
            let place = NonNull::new_unchecked(Arc::as_ptr(&self.timer).cast_mut());
            locked.arm(place, duration)
        };
        if armed {
            std::mem::forget(reference.take());
        }
        drop(locked);
        if was_armed {
            self.drop_schedules_reference();
        }
        was_armed
    }
}

impl fmt::Debug for FuncTimer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FuncTimer").finish_non_exhaustive()
    }
}

//! Timers and tickers that are received from: Go's `time.Timer` and `time.Ticker`.

use std::cell::Cell;
use std::fmt;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::schedule::Schedule;
use crate::chan::core::{Received, Sent};
use crate::chan::{Receiver, Sender, channel};
use crate::sched::m::M;
use crate::sched::park::Waking;
use crate::sched::timers::{Action, Alarm, Fired};

/// A timer that sends the time into a channel with room for one.
#[repr(C)]
struct Sending {
    schedule: Schedule,
    /// Nanoseconds from one tick to the next; 0 for a timer. Under the schedule's lock.
    period: Cell<u64>,
    sender: Sender<Instant>,
}

// SAFETY: the cell is under the schedule's lock.
unsafe impl Sync for Sending {}

static SEND: Action = Action { fire, abandon };

impl Sending {
    /// A timer that is not armed, and where its ticks come out.
    #[track_caller]
    fn new() -> (Arc<Sending>, Receiver<Instant>) {
        let (sender, receiver) = channel(1);
        let timer = Arc::new(Sending {
            schedule: Schedule::new(&SEND),
            period: Cell::new(0),
            sender,
        });
        (timer, receiver)
    }

    /// Disarms it, and takes back what nobody has received; whether there was either. Then, with `again`,
    /// arms it: to fire after that time, and every so many nanoseconds from then on.
    fn change(self: &Arc<Self>, again: Option<(Duration, u64)>) -> bool {
        let locked = self.schedule.lock();
        let was_armed = locked.disarm();
        let channel = &self.sender.channel;
        channel.lock.lock();
        // SAFETY: the lock is held.
        let unreceived = unsafe { channel.try_receive_locked() };
        // SAFETY: it was taken above.
        unsafe { channel.lock.unlock() };
        if let Some((after, period)) = again {
            self.period.set(period);
            // SAFETY: it was disarmed, and what is in an `Arc` stays where it is until it is dropped.
            unsafe { locked.arm(non_null(Arc::as_ptr(self)), after) };
        }
        was_armed || matches!(unreceived, Received::Value(..))
    }
}

fn non_null<T>(pointer: *const T) -> NonNull<T> {
    // SAFETY: the pointer of an `Arc` is never null.
    unsafe { NonNull::new_unchecked(pointer.cast_mut()) }
}

/// # Safety
/// As [`Action::fire`]; the alarm is that of a [`Sending`].
unsafe fn fire(m: &M, fired: Fired) {
    let place = fired.alarm.cast::<Sending>();
    // SAFETY: dropping the timer waits until it has fired.
    let timer = unsafe { place.as_ref() };
    let locked = timer.schedule.lock();
    let is_due = locked.comes_due(fired.turn);
    let mut waking = None;
    if is_due {
        waking = timer.send(m);
        let period = timer.period.get();
        if let Some(missed) = fired.late.checked_div(period) {
            // Ticks that were missed are left out, as in Go.
            let next = fired.deadline + period * (missed + 1);
            // SAFETY: it came due, so it is disarmed; it stays, as above.
            unsafe { locked.arm_at(place, m.held_p(), next) };
        }
    }
    drop(locked);
    timer.schedule.fired();
    if is_due {
        m.tracer
            .timer_fired(m, waking.as_ref().map(Waking::goroutine), fired.late);
    }
    if let Some(waking) = waking {
        waking.wake();
    }
}

impl Sending {
    /// Sends the time, if there is room; who is to be woken.
    fn send(&self, m: &M) -> Option<Waking> {
        let channel = &self.sender.channel;
        channel.lock.lock();
        // SAFETY: the lock is held. There is room for one, so nothing is allocated.
        let waking = match unsafe { channel.try_send_locked(Instant::now()) } {
            Sent::Done(woken) => woken.map(|g| Waking::by_timer(m, g)),
            // A slow receiver has not seen the last tick yet, or closed the channel.
            Sent::Full(_) | Sent::Closed(_) => None,
        };
        // SAFETY: it was taken above.
        unsafe { channel.lock.unlock() };
        waking
    }
}

/// # Safety
/// As [`Action::abandon`]; the alarm is that of a [`Sending`].
unsafe fn abandon(alarm: NonNull<Alarm>) {
    // SAFETY: dropping the timer waits until it has fired.
    let timer = unsafe { alarm.cast::<Sending>().as_ref() };
    timer.sender.close();
    timer.schedule.fired();
}

/// Fires once: after its time there is one value to receive, the time of firing.
///
/// A timer is received from as a channel is, alone or in a [`select!`](crate::select!):
/// it [dereferences](Deref) to a [`Receiver`]. When [`stop`](Timer::stop) or [`reset`](Timer::reset) has
/// returned, no value of an earlier setting can be received any more, as in Go since 1.23; no draining is
/// necessary. Dropping a timer stops it; clones of its receiver then find a closed channel.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use gmp_runtime::{channel, select, time::Timer};
///
/// # let runtime = gmp_runtime::Runtime::builder().procs(1).build()?;
/// // SAFETY: nothing in here keeps a reference into a thread-local across a call that may park.
/// unsafe {
///     runtime.run(|| {
///         let (_sender, receiver) = channel::<u32>(0);
///         let timer = Timer::new(Duration::from_millis(1));
///         let late = select! {
///             recv(receiver) -> _number => false,
///             recv(timer) -> fired => fired.is_ok(),
///         };
///         assert!(late);
///         assert!(!timer.stop(), "it has fired, and its value was received");
///     })
/// };
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Timer {
    timer: Arc<Sending>,
    receiver: Receiver<Instant>,
}

impl Timer {
    /// A timer that fires after `duration`. Allocates; does not block.
    ///
    /// # Panics
    /// On a thread that runs no goroutine.
    #[track_caller]
    pub fn new(duration: Duration) -> Timer {
        let (timer, receiver) = Sending::new();
        timer.change(Some((duration, 0)));
        Timer { timer, receiver }
    }

    /// Stops it. True if that prevented a value from being received: it had not fired, or its value was
    /// still there and has been taken back. False if the value has been received, or it was stopped already.
    ///
    /// Does not block; works on any thread.
    pub fn stop(&self) -> bool {
        self.timer.change(None)
    }

    /// Makes it fire after `duration`, whatever it was set to before. Returns what [`stop`](Timer::stop)
    /// would.
    ///
    /// Does not block; works on any thread.
    pub fn reset(&self, duration: Duration) -> bool {
        self.timer.change(Some((duration, 0)))
    }
}

impl Deref for Timer {
    type Target = Receiver<Instant>;

    fn deref(&self) -> &Receiver<Instant> {
        &self.receiver
    }
}

impl fmt::Debug for Timer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timer").finish_non_exhaustive()
    }
}

/// A [`Timer`] that fires after `duration`: Go's `time.After`.
///
/// # Panics
/// On a thread that runs no goroutine.
#[track_caller]
pub fn after(duration: Duration) -> Timer {
    Timer::new(duration)
}

/// Fires again and again: the times of ticks can be received.
///
/// It [dereferences](Deref) to a [`Receiver`], as a [`Timer`] does. There is room for one tick: those that a
/// slow receiver misses are left out, and later ones keep to the same rhythm. Dropping a ticker stops it.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use gmp_runtime::time::Ticker;
///
/// # let runtime = gmp_runtime::Runtime::builder().procs(1).build()?;
/// // SAFETY: nothing in here keeps a reference into a thread-local across a call that may park.
/// unsafe {
///     runtime.run(|| {
///         let ticker = Ticker::new(Duration::from_millis(1));
///         assert_eq!(ticker.iter().take(3).count(), 3);
///     })
/// };
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Ticker {
    timer: Arc<Sending>,
    receiver: Receiver<Instant>,
}

impl Ticker {
    /// A ticker that fires every `period`, the first time after one period. Allocates; does not block.
    ///
    /// # Panics
    /// If the period is zero. On a thread that runs no goroutine.
    #[track_caller]
    pub fn new(period: Duration) -> Ticker {
        let nanos = nanos_of(period);
        let (timer, receiver) = Sending::new();
        timer.change(Some((period, nanos)));
        Ticker { timer, receiver }
    }

    /// Stops it: no tick can be received any more. The channel stays open. Does not block; works on any
    /// thread.
    pub fn stop(&self) {
        self.timer.change(None);
    }

    /// Makes it fire every `period` from now on. Ticks of the old rhythm cannot be received any more. Does
    /// not block; works on any thread.
    ///
    /// # Panics
    /// If the period is zero.
    #[track_caller]
    pub fn reset(&self, period: Duration) {
        self.timer.change(Some((period, nanos_of(period))));
    }
}

#[track_caller]
fn nanos_of(period: Duration) -> u64 {
    assert!(!period.is_zero(), "the period of a ticker cannot be zero");
    // So that the sum with a deadline does not overflow: 146 years.
    u64::try_from(period.as_nanos()).map_or(u64::MAX / 4, |nanos| nanos.min(u64::MAX / 4))
}

impl Deref for Ticker {
    type Target = Receiver<Instant>;

    fn deref(&self) -> &Receiver<Instant> {
        &self.receiver
    }
}

impl fmt::Debug for Ticker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticker").finish_non_exhaustive()
    }
}

//! The states that spans have: of goroutines, of Ps and of threads, and what made a goroutine
//! runnable.

use gmp_trace::event::Waker;
use gmp_trace::tables::{SiteRef, StackRef};
use gmp_trace::{Body, Event};

macro_rules! states {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)*
        }

        impl $name {
            /// Every state, in the order of their numbers.
            pub const ALL: &'static [$name] = &[$($name::$variant),*];
            /// How many states there are.
            pub const COUNT: usize = $name::ALL.len();

            /// The state in words, as reports print it.
            pub const fn name(self) -> &'static str {
                match self {
                    $($name::$variant => $text,)*
                }
            }
        }
    };
}

states! {
    /// What a goroutine does. The states of one goroutine partition its life.
    GoroutineState {
        /// Something is missing from the trace: what it did cannot be told.
        Unknown = "unknown",
        /// On a queue, wants a P. Preempted goroutines are here.
        Runnable = "runnable",
        /// Runs.
        Running = "running",
        /// In a system call, its P kept for it.
        Syscall = "syscall",
        /// In a system call, its P taken away meanwhile.
        SyscallWithoutP = "syscall without P",
        /// Waits for something.
        Waiting = "waiting",
    }
}

states! {
    /// What a P does. The states of one P partition the trace.
    ProcState {
        /// Something is missing from the trace: what it did cannot be told.
        Unknown = "unknown",
        /// A goroutine runs on it.
        Running = "running",
        /// A thread holds it and runs no goroutine: it switches, or looks for work.
        Scheduler = "scheduler",
        /// Its goroutine is in a system call.
        Syscall = "syscall",
        /// In the idle list.
        Idle = "idle",
        /// The world is stopped.
        Stopped = "stopped",
        /// There is no such P now: the number of Ps is smaller.
        Absent = "absent",
    }
}

states! {
    /// What a thread (M) does. The states of one thread partition its life.
    ThreadState {
        /// Nothing has been heard of it yet.
        Unknown = "unknown",
        /// Runs a goroutine.
        Running = "running",
        /// In the scheduler.
        Scheduler = "scheduler",
        /// In the scheduler, looking for work that it does not know of.
        Spinning = "spinning",
        /// In a system call of a goroutine.
        Syscall = "syscall",
        /// Asleep.
        Parked = "parked",
    }
}

states! {
    /// What made a goroutine runnable.
    Cause {
        /// It was runnable before the trace began.
        Before = "before the trace",
        /// It was made.
        Created = "created",
        /// Another goroutine woke it.
        Goroutine = "goroutine",
        /// The netpoller woke it.
        Netpoll = "netpoller",
        /// A timer woke it.
        Timer = "timer",
        /// sysmon woke it.
        Sysmon = "sysmon",
        /// A thread that is not of the runtime woke it.
        External = "external thread",
        /// The runtime itself woke it.
        Runtime = "runtime",
        /// Somebody woke it; the format does not tell who.
        Woken = "woken",
        /// It gave up its P by its own will.
        Yielded = "yield",
        /// It was made to give up its P.
        Preempted = "preemption",
        /// It came back from a system call and had no P.
        SyscallReturn = "syscall return",
    }
}

impl Cause {
    /// The cause of a wake by `waker`.
    pub(crate) const fn of_waker(waker: Option<Waker>) -> Cause {
        match waker {
            None => Cause::Woken,
            Some(Waker::Goroutine) => Cause::Goroutine,
            Some(Waker::Netpoll) => Cause::Netpoll,
            Some(Waker::Timer) => Cause::Timer,
            Some(Waker::Sysmon) => Cause::Sysmon,
            Some(Waker::External) => Cause::External,
            Some(Waker::Runtime) => Cause::Runtime,
        }
    }
}

impl GoroutineState {
    /// The state as a set of one.
    pub(crate) const fn bit(self) -> u8 {
        1 << self as u8
    }
}

impl ProcState {
    /// The state as a set of one.
    pub(crate) const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// A place in the program, in whichever form the trace has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Place {
    /// The trace does not tell.
    Unknown,
    /// A place in the source.
    Site(SiteRef),
    /// A stack; its leaf is the place.
    Stack(StackRef),
}

impl Place {
    /// The site where there is one, else the stack.
    pub fn of(site: Option<SiteRef>, stack: Option<StackRef>) -> Place {
        match (site, stack) {
            (Some(site), _) => Place::Site(site),
            (None, Some(stack)) => Place::Stack(stack),
            (None, None) => Place::Unknown,
        }
    }

    /// Where the goroutine was made whose creation or status `event` tells of; `None` for other events.
    #[inline]
    pub fn of_birth(event: &Event) -> Option<Place> {
        match event.body {
            Body::GoCreate {
                site,
                stack,
                start_stack,
                ..
            } => Some(Place::of(site, start_stack.or(stack))),
            Body::GoStatus { created_at, .. } => Some(Place::of(created_at, None)),
            _ => None,
        }
    }
}

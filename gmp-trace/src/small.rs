//! The enums of the event model by the numbers that the native format gives them.

use crate::event::{
    ExitHow, Found, GState, HandoffReason, PState, PreemptReason, Preemption, RetakeReason,
    StealFrom, Waker,
};

/// An enum whose values stand in the heads of records.
pub(crate) trait Small: Sized {
    /// The value with number `number`; `None` where this version has none.
    fn from_number(number: u8) -> Option<Self>;
}

macro_rules! small {
    ($($name:ident: $($value:ident)*;)*) => {$(
        impl Small for $name {
            #[inline(always)]
            fn from_number(number: u8) -> Option<$name> {
                match number {
                    $(n if n == $name::$value as u8 => Some($name::$value),)*
                    _ => None,
                }
            }
        }
    )*};
}

small! {
    Found: Runnext Local Global Stolen StolenRunnext Netpoll Timer Handoff Locked Wired Urgent;
    Waker: Goroutine Netpoll Timer Sysmon External Runtime;
    Preemption: Cooperative Signal Unknown;
    PreemptReason: Slice Urgent Stop;
    RetakeReason: Syscall ImplicitSyscall Frozen;
    HandoffReason: Syscall Locked Wired Frozen;
    ExitHow: Returned Panicked Goexit Cancelled;
    StealFrom: Ring Runnext Timers;
    GState: Runnable Running Syscall Waiting;
    PState: Running Idle Syscall;
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use super::*;
    use crate::spec::Kind;

    /// The names that the table gives to the values of `kind` are those of the enum.
    fn check<T: Small + Debug>(kind: Kind) -> usize {
        let names = kind.spec().values;
        for number in 0..32u8 {
            let name = names.get(number as usize).filter(|n| !n.is_empty());
            let value = T::from_number(number);
            assert_eq!(name.is_some(), value.is_some(), "{kind:?} {number}");
            if let (Some(name), Some(value)) = (name, value) {
                assert_eq!(
                    name.replace('-', ""),
                    format!("{value:?}").to_lowercase(),
                    "{kind:?}"
                );
            }
        }
        names.len()
    }

    #[test]
    fn values_have_the_names_of_the_table() {
        let names = check::<Found>(Kind::Start)
            + check::<Waker>(Kind::Ready)
            + check::<Preemption>(Kind::Preempted)
            + check::<Preemption>(Kind::SafePoint)
            + check::<PreemptReason>(Kind::PreemptRequest)
            + check::<RetakeReason>(Kind::ProcSteal)
            + check::<HandoffReason>(Kind::ProcHandoff)
            + check::<ExitHow>(Kind::Exit)
            + check::<StealFrom>(Kind::Steal)
            + check::<GState>(Kind::GoStatus)
            + check::<PState>(Kind::ProcStatus);
        assert_eq!(names, 11 + 6 + 3 + 3 + 3 + 3 + 4 + 4 + 3 + 5 + 4);
    }
}

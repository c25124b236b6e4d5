//! The events of Go's format since Go 1.22, in one table: reader, writer and text form use it.
//!
//! Names of events and arguments are those of Go's raw text.

use crate::varint::MAX_VARINT_BYTES;

/// What kind of record an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Holds the batches together; numbers only.
    Framing,
    /// A number of frames and so many frames follow the arguments.
    Stack,
    /// A length and so many bytes follow the arguments.
    Data,
    /// Of a thread: the first argument is the time since the event before.
    Timed,
    /// As [`Form::Timed`], of an experiment.
    Experimental,
}

/// One kind of event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EventSpec {
    /// The byte that it begins with.
    pub(crate) number: u8,
    pub(crate) name: &'static str,
    /// The numbers that follow the byte.
    pub(crate) args: &'static [&'static str],
    pub(crate) form: Form,
    /// The lowest version that has it.
    pub(crate) since: u16,
}

macro_rules! events {
    ($($number:literal $constant:ident $name:literal $form:ident $since:literal [$($arg:literal)*];)*) => {
        $(pub(crate) const $constant: u8 = $number;)*

        /// Every kind of event, by ascending number.
        pub(crate) const SPECS: &[EventSpec] = &[$(EventSpec {
            number: $number,
            name: $name,
            args: &[$($arg),*],
            form: Form::$form,
            since: $since,
        }),*];
    };
}

events! {
    1 EVENT_BATCH "EventBatch" Framing 22 ["gen" "m" "time" "size"];
    2 STACKS "Stacks" Framing 22 [];
    3 STACK "Stack" Stack 22 ["id" "nframes"];
    4 STRINGS "Strings" Framing 22 [];
    5 STRING "String" Data 22 ["id"];
    6 CPU_SAMPLES "CPUSamples" Framing 22 [];
    7 CPU_SAMPLE "CPUSample" Framing 22 ["time" "m" "p" "g" "stack"];
    8 FREQUENCY "Frequency" Framing 22 ["freq"];
    9 PROCS_CHANGE "ProcsChange" Timed 22 ["dt" "procs_value" "stack"];
    10 PROC_START "ProcStart" Timed 22 ["dt" "p" "p_seq"];
    11 PROC_STOP "ProcStop" Timed 22 ["dt"];
    12 PROC_STEAL "ProcSteal" Timed 22 ["dt" "p" "p_seq" "m"];
    13 PROC_STATUS "ProcStatus" Timed 22 ["dt" "p" "pstatus"];
    14 GO_CREATE "GoCreate" Timed 22 ["dt" "new_g" "new_stack" "stack"];
    15 GO_CREATE_SYSCALL "GoCreateSyscall" Timed 22 ["dt" "new_g"];
    16 GO_START "GoStart" Timed 22 ["dt" "g" "g_seq"];
    17 GO_DESTROY "GoDestroy" Timed 22 ["dt"];
    18 GO_DESTROY_SYSCALL "GoDestroySyscall" Timed 22 ["dt"];
    19 GO_STOP "GoStop" Timed 22 ["dt" "reason_string" "stack"];
    20 GO_BLOCK "GoBlock" Timed 22 ["dt" "reason_string" "stack"];
    21 GO_UNBLOCK "GoUnblock" Timed 22 ["dt" "g" "g_seq" "stack"];
    22 GO_SYSCALL_BEGIN "GoSyscallBegin" Timed 22 ["dt" "p_seq" "stack"];
    23 GO_SYSCALL_END "GoSyscallEnd" Timed 22 ["dt"];
    24 GO_SYSCALL_END_BLOCKED "GoSyscallEndBlocked" Timed 22 ["dt"];
    25 GO_STATUS "GoStatus" Timed 22 ["dt" "g" "m" "gstatus"];
    26 STW_BEGIN "STWBegin" Timed 22 ["dt" "kind_string" "stack"];
    27 STW_END "STWEnd" Timed 22 ["dt"];
    28 GC_ACTIVE "GCActive" Timed 22 ["dt" "gc_seq"];
    29 GC_BEGIN "GCBegin" Timed 22 ["dt" "gc_seq" "stack"];
    30 GC_END "GCEnd" Timed 22 ["dt" "gc_seq"];
    31 GC_SWEEP_ACTIVE "GCSweepActive" Timed 22 ["dt" "p"];
    32 GC_SWEEP_BEGIN "GCSweepBegin" Timed 22 ["dt" "stack"];
    33 GC_SWEEP_END "GCSweepEnd" Timed 22 ["dt" "swept_value" "reclaimed_value"];
    34 GC_MARK_ASSIST_ACTIVE "GCMarkAssistActive" Timed 22 ["dt" "g"];
    35 GC_MARK_ASSIST_BEGIN "GCMarkAssistBegin" Timed 22 ["dt" "stack"];
    36 GC_MARK_ASSIST_END "GCMarkAssistEnd" Timed 22 ["dt"];
    37 HEAP_ALLOC "HeapAlloc" Timed 22 ["dt" "heapalloc_value"];
    38 HEAP_GOAL "HeapGoal" Timed 22 ["dt" "heapgoal_value"];
    39 GO_LABEL "GoLabel" Timed 22 ["dt" "label_string"];
    40 USER_TASK_BEGIN "UserTaskBegin" Timed 22 ["dt" "task" "parent_task" "name_string" "stack"];
    41 USER_TASK_END "UserTaskEnd" Timed 22 ["dt" "task" "stack"];
    42 USER_REGION_BEGIN "UserRegionBegin" Timed 22 ["dt" "task" "name_string" "stack"];
    43 USER_REGION_END "UserRegionEnd" Timed 22 ["dt" "task" "name_string" "stack"];
    44 USER_LOG "UserLog" Timed 22 ["dt" "task" "key_string" "value_string" "stack"];
    45 GO_SWITCH "GoSwitch" Timed 23 ["dt" "g" "g_seq"];
    46 GO_SWITCH_DESTROY "GoSwitchDestroy" Timed 23 ["dt" "g" "g_seq"];
    47 GO_CREATE_BLOCKED "GoCreateBlocked" Timed 23 ["dt" "new_g" "new_stack" "stack"];
    48 GO_STATUS_STACK "GoStatusStack" Timed 23 ["dt" "g" "m" "gstatus" "stack"];
    49 EXPERIMENTAL_BATCH "ExperimentalBatch" Data 23 ["exp" "gen" "m" "time"];
    50 SYNC "Sync" Framing 25 [];
    51 CLOCK_SNAPSHOT "ClockSnapshot" Framing 25 ["dt" "mono" "sec" "nsec"];
    52 END_OF_GENERATION "EndOfGeneration" Framing 26 [];
    128 SPAN "Span" Experimental 23 ["dt" "id" "npages_value" "kindclass"];
    129 SPAN_ALLOC "SpanAlloc" Experimental 23 ["dt" "id" "npages_value" "kindclass"];
    130 SPAN_FREE "SpanFree" Experimental 23 ["dt" "id"];
    131 HEAP_OBJECT "HeapObject" Experimental 23 ["dt" "id" "type"];
    132 HEAP_OBJECT_ALLOC "HeapObjectAlloc" Experimental 23 ["dt" "id" "type"];
    133 HEAP_OBJECT_FREE "HeapObjectFree" Experimental 23 ["dt" "id"];
    134 GOROUTINE_STACK "GoroutineStack" Experimental 23 ["dt" "id" "order"];
    135 GOROUTINE_STACK_ALLOC "GoroutineStackAlloc" Experimental 23 ["dt" "id" "order"];
    136 GOROUTINE_STACK_FREE "GoroutineStackFree" Experimental 23 ["dt" "id"];
}

/// Bytes of a batch, its header not counted, at most.
pub(crate) const MAX_BATCH_BYTES: u64 = 64 << 10;

/// Bytes of a string, at most.
pub(crate) const MAX_STRING_BYTES: u64 = 1 << 10;

/// Frames of a stack, at most.
pub(crate) const MAX_FRAMES: u64 = 128;

/// Numbers of a timed event after its time, at most.
pub(crate) const MAX_ARGS: usize = 4;

/// Bytes of the longest event of a thread: its kind, its time and its numbers.
pub(crate) const MAX_EVENT_BYTES: usize = 1 + (1 + MAX_ARGS) * MAX_VARINT_BYTES;

/// The experiment about allocations.
pub(crate) const EXPERIMENT_ALLOC_FREE: u8 = 1;

/// Stands in [`TIMED_ARGS`] for a byte that begins no timed event.
pub(crate) const NOT_TIMED: u8 = u8::MAX;

/// How many numbers follow the time, by the byte that an event begins with.
pub(crate) const TIMED_ARGS: [u8; 256] = {
    let mut counts = [NOT_TIMED; 256];
    let mut i = 0;
    while i < SPECS.len() {
        let spec = &SPECS[i];
        if matches!(spec.form, Form::Timed | Form::Experimental) {
            counts[spec.number as usize] = spec.args.len() as u8 - 1;
        }
        i += 1;
    }
    counts
};

/// The kind of event with number `number`.
pub(crate) fn spec(number: u8) -> Option<&'static EventSpec> {
    SPECS.iter().find(|spec| spec.number == number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_order_and_within_its_limits() {
        assert_eq!(SPECS.len(), 61);
        assert!(SPECS.windows(2).all(|pair| pair[0].number < pair[1].number));
        let mut timed = 0;
        for spec in SPECS {
            assert_eq!(super::spec(spec.number).map(|s| s.name), Some(spec.name));
            if TIMED_ARGS[spec.number as usize] == NOT_TIMED {
                continue;
            }
            assert_eq!(spec.args[0], "dt", "{}", spec.name);
            assert!(spec.args.len() <= MAX_ARGS + 1, "{}", spec.name);
            timed += 1;
        }
        assert_eq!(timed, 49);
    }
}

//! The events of Go's format up to Go 1.21.

/// One kind of event.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kind {
    /// Empty where no event has the number.
    pub(super) name: &'static str,
    /// Numbers after the time, the stack not counted.
    pub(super) args: usize,
    /// Whether the last number is a stack.
    pub(super) stack: bool,
}

macro_rules! kinds {
    ($($number:literal $constant:ident $name:literal $args:literal $stack:literal;)*) => {
        $(pub(super) const $constant: u8 = $number;)*

        /// Every kind of event, by its number.
        pub(super) const KINDS: [Kind; 50] = {
            let mut kinds = [Kind { name: "", args: 0, stack: false }; 50];
            $(kinds[$number] = Kind { name: $name, args: $args, stack: $stack != 0 };)*
            kinds
        };
    };
}

kinds! {
    1 BATCH "Batch" 1 0;
    2 FREQUENCY "Frequency" 0 0;
    3 STACK "Stack" 0 0;
    4 GOMAXPROCS "Gomaxprocs" 1 1;
    5 PROC_START "ProcStart" 1 0;
    6 PROC_STOP "ProcStop" 0 0;
    7 GC_START "GCStart" 1 1;
    8 GC_DONE "GCDone" 0 0;
    9 STW_START "GCSTWStart" 1 0;
    10 STW_DONE "GCSTWDone" 0 0;
    11 GC_SWEEP_START "GCSweepStart" 0 1;
    12 GC_SWEEP_DONE "GCSweepDone" 2 0;
    13 GO_CREATE "GoCreate" 2 1;
    14 GO_START "GoStart" 2 0;
    15 GO_END "GoEnd" 0 0;
    16 GO_STOP "GoStop" 0 1;
    17 GO_SCHED "GoSched" 0 1;
    18 GO_PREEMPT "GoPreempt" 0 1;
    19 GO_SLEEP "GoSleep" 0 1;
    20 GO_BLOCK "GoBlock" 0 1;
    21 GO_UNBLOCK "GoUnblock" 2 1;
    22 GO_BLOCK_SEND "GoBlockSend" 0 1;
    23 GO_BLOCK_RECV "GoBlockRecv" 0 1;
    24 GO_BLOCK_SELECT "GoBlockSelect" 0 1;
    25 GO_BLOCK_SYNC "GoBlockSync" 0 1;
    26 GO_BLOCK_COND "GoBlockCond" 0 1;
    27 GO_BLOCK_NET "GoBlockNet" 0 1;
    28 GO_SYS_CALL "GoSysCall" 0 1;
    29 GO_SYS_EXIT "GoSysExit" 3 0;
    30 GO_SYS_BLOCK "GoSysBlock" 0 0;
    31 GO_WAITING "GoWaiting" 1 0;
    32 GO_IN_SYSCALL "GoInSyscall" 1 0;
    33 HEAP_ALLOC "HeapAlloc" 1 0;
    34 HEAP_GOAL "HeapGoal" 1 0;
    35 TIMER_GOROUTINE "TimerGoroutine" 0 0;
    36 FUTILE_WAKEUP "FutileWakeup" 0 0;
    37 STRING "String" 0 0;
    38 GO_START_LOCAL "GoStartLocal" 1 0;
    39 GO_UNBLOCK_LOCAL "GoUnblockLocal" 1 1;
    40 GO_SYS_EXIT_LOCAL "GoSysExitLocal" 2 0;
    41 GO_START_LABEL "GoStartLabel" 3 0;
    42 GO_BLOCK_GC "GoBlockGC" 0 1;
    43 GC_MARK_ASSIST_START "GCMarkAssistStart" 0 1;
    44 GC_MARK_ASSIST_DONE "GCMarkAssistDone" 0 0;
    45 USER_TASK_CREATE "UserTaskCreate" 3 1;
    46 USER_TASK_END "UserTaskEnd" 1 1;
    47 USER_REGION "UserRegion" 3 1;
    48 USER_LOG "UserLog" 2 1;
    49 CPU_SAMPLE "CPUSample" 3 1;
}

/// Whether `kind` is no event of a P.
pub(super) fn is_structure(kind: u8) -> bool {
    matches!(
        kind,
        BATCH | FREQUENCY | STACK | TIMER_GOROUTINE | STRING | CPU_SAMPLE
    )
}

/// Whether the goroutine stops to run with this event.
pub(super) fn ends_turn(kind: u8) -> bool {
    blocks(kind) || matches!(kind, GO_END | GO_STOP | GO_SCHED | GO_PREEMPT)
}

/// Whether the goroutine waits after this event.
pub(super) fn blocks(kind: u8) -> bool {
    matches!(
        kind,
        GO_SLEEP
            | GO_BLOCK
            | GO_BLOCK_SEND
            | GO_BLOCK_RECV
            | GO_BLOCK_SELECT
            | GO_BLOCK_SYNC
            | GO_BLOCK_COND
            | GO_BLOCK_NET
            | GO_SYS_BLOCK
            | GO_BLOCK_GC
    )
}

/// What the world was stopped for, by the numbers of Go 1.21.
pub(super) const STOP_KINDS: [&str; 17] = [
    "",
    "GC mark termination",
    "GC sweep termination",
    "write heap dump",
    "goroutine profile",
    "goroutine profile cleanup",
    "all goroutine stack trace",
    "read mem stats",
    "AllThreadsSyscall",
    "GOMAXPROCS",
    "start trace",
    "stop trace",
    "CountPagesInUse (test)",
    "ReadMetricsSlow (test)",
    "ReadMemStatsSlow (test)",
    "PageCachePagesLeaked (test)",
    "ResetDebugLog (test)",
];

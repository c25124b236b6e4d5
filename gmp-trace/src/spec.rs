//! The one table of the native format's records: writer, reader, text form, documents and fuzzing
//! all use it.
//!
//! A record is a head byte and then as many numbers as the head's arity says. The head carries the
//! record's *kind*, a small *value* (how a goroutine was found, why a P was taken, …) and, for kinds
//! with a sequence number, whether the number is written or follows from the order of the block.
//! Nobody else matches on a raw head byte.
//!
//! # Names of arguments
//!
//! The part after the last `_` (or the whole name) is the type, see [`ArgType`]. A prefix
//! `optional_` of the type says that 0 stands for "none" and every other number is one more than
//! what it stands for.

/// The format version that this crate writes: a reader refuses a newer major version and reads a
/// newer minor one, skipping what it does not know.
pub const VERSION: (u16, u16) = (1, 0);

/// The head byte that ends the data of a block.
pub const END_OF_DATA: u8 = 0;

/// Arity of a head that the format does not define.
pub const ARITY_UNDEFINED: u8 = 14;

/// Arity of a head after which one number tells the length in bytes of the rest of the record.
pub const ARITY_LENGTH: u8 = 15;

/// What a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
#[allow(missing_docs)] // every kind is described in SPECS, once
pub enum Kind {
    ParkStart,
    YieldStart,
    ExitStart,
    Start,
    Ready,
    Park,
    Yield,
    Preempted,
    Exit,
    Create,
    Label,
    PreemptRequest,
    GoStatus,
    WaitDef,
    AtStack,
    Steal,
    StealFailed,
    Overflow,
    GlobalBatch,
    ProcStart,
    ProcStop,
    RunWithoutP,
    ProcsChange,
    ProcSteal,
    ProcHandoff,
    ProcStatus,
    MCreate,
    MExit,
    MPark,
    MWake,
    SpinBegin,
    SpinEnd,
    MLock,
    MUnlock,
    MCpu,
    SchedSample,
    SyscallEnter,
    SyscallExit,
    SyscallExitBlocked,
    SyscallImplicit,
    Netpoll,
    TimerFired,
    StopRequested,
    Stopped,
    Restarted,
    SafePoint,
    GcBegin,
    GcActive,
    GcEnd,
    Metric,
    TaskBegin,
    TaskEnd,
    RegionBegin,
    RegionEnd,
    Log,
    CpuSample,
    String,
    Site,
    Stack,
    Module,
    ClockPair,
    GenBegin,
    GenEnd,
    Loss,
    TraceEnd,
}

/// What a record is about, and with that in which blocks it may stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Group {
    /// Goroutines and their switches.
    Goroutine,
    /// Queues and stealing.
    Queue,
    /// Ps.
    Proc,
    /// Ms.
    Thread,
    /// System calls, network, timers.
    Waiting,
    /// Stop the world, collection, figures.
    Stop,
    /// The program's own events.
    User,
    /// Samples of the CPU profiler.
    Sample,
    /// Strings, sites, stacks, modules.
    Table,
    /// The trace itself.
    Control,
}

/// What a number of a record stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ArgType {
    /// Units of the clock since the last stamp of the block (its base time for the first).
    Dt,
    /// A goroutine: zigzag difference from the last goroutine that the block named.
    G,
    /// A goroutine's number itself; 0 is none.
    Goroutine,
    /// A P.
    P,
    /// An M.
    M,
    /// A P plus one; 0 is none.
    OptionalP,
    /// An M plus one; 0 is none.
    OptionalM,
    /// A sequence number.
    Seq,
    /// A count or other plain number.
    Count,
    /// A wait slot of the block.
    Slot,
    /// A string: below 256 one that every reader knows, else 256 more than its number in the
    /// generation.
    Text,
    /// A site of the generation; 0 is none.
    Site,
    /// A stack of the generation; 0 is none.
    Stack,
    /// The object that is waited on; 0 is none.
    Object,
    /// A task; 0 is none.
    Task,
    /// A duration in units of the clock.
    Units,
    /// A point in time in units of the clock.
    Ticks,
    /// A point in time or a duration in nanoseconds.
    Nanos,
    /// The number under which a table keeps something.
    Id,
    /// An address in the program.
    Address,
}

/// The types by the names that argument names end in.
pub const ARG_TYPES: &[(&str, ArgType)] = &[
    ("dt", ArgType::Dt),
    ("g", ArgType::G),
    ("goroutine", ArgType::Goroutine),
    ("p", ArgType::P),
    ("m", ArgType::M),
    ("optional_p", ArgType::OptionalP),
    ("optional_m", ArgType::OptionalM),
    ("seq", ArgType::Seq),
    ("count", ArgType::Count),
    ("slot", ArgType::Slot),
    ("text", ArgType::Text),
    ("site", ArgType::Site),
    ("stack", ArgType::Stack),
    ("object", ArgType::Object),
    ("task", ArgType::Task),
    ("units", ArgType::Units),
    ("ticks", ArgType::Ticks),
    ("nanos", ArgType::Nanos),
    ("id", ArgType::Id),
    ("address", ArgType::Address),
];

/// The type of the argument called `name`; `None` if the name does not end in one.
pub fn arg_type(name: &str) -> Option<ArgType> {
    ARG_TYPES
        .iter()
        .filter(|(suffix, _)| {
            name.strip_suffix(suffix)
                .is_some_and(|rest| rest.is_empty() || rest.ends_with('_'))
        })
        .max_by_key(|(suffix, _)| suffix.len())
        .map(|&(_, of)| of)
}

/// What follows the numbers of a record that has a length of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tail {
    /// Text.
    Bytes,
    /// Addresses, one number each, leaf first.
    Addresses,
}

/// One kind of record.
#[derive(Clone, Copy, Debug)]
pub struct Spec {
    /// What this describes.
    pub kind: Kind,
    /// Its name in the text form and in documents.
    pub name: &'static str,
    /// The first of its heads.
    pub head: u8,
    /// How many heads it has.
    pub width: u8,
    /// The names of its small values; empty where there is but one. Value `v` has head `head + v`,
    /// or `head + 2 v` and `head + 2 v + 1` with a sequence number.
    pub values: &'static [&'static str],
    /// Whether odd heads carry a sequence number as their last argument, which even heads leave out.
    pub seq_form: bool,
    /// The names of its arguments, in order, the optional sequence number included.
    pub args: &'static [&'static str],
    /// Set where the record has a length of its own: what follows the arguments up to the length.
    pub tail: Option<Tail>,
    /// What it is about.
    pub group: Group,
    /// How many events a reader makes of it.
    pub events: u8,
    /// One sentence.
    pub doc: &'static str,
}

impl Spec {
    /// How many numbers follow head `head` of this kind, or [`ARITY_LENGTH`].
    pub const fn arity(&self, head: u8) -> u8 {
        if self.tail.is_some() {
            ARITY_LENGTH
        } else if self.seq_form && (head - self.head).is_multiple_of(2) {
            self.args.len() as u8 - 1
        } else {
            self.args.len() as u8
        }
    }

    /// Whether the first number is the time.
    pub fn has_dt(&self) -> bool {
        self.args.first() == Some(&"dt")
    }
}

const fn spec(kind: Kind, name: &'static str, head: u8, doc: &'static str) -> Spec {
    Spec {
        kind,
        name,
        head,
        width: 1,
        values: &[],
        seq_form: false,
        args: &["dt"],
        tail: None,
        group: Group::Goroutine,
        events: 1,
        doc,
    }
}

impl Spec {
    const fn group(mut self, group: Group) -> Spec {
        self.group = group;
        self
    }

    const fn args(mut self, args: &'static [&'static str]) -> Spec {
        self.args = args;
        self
    }

    const fn values(mut self, width: u8, values: &'static [&'static str]) -> Spec {
        self.width = width;
        self.values = values;
        self
    }

    const fn seq(mut self) -> Spec {
        self.seq_form = true;
        self
    }

    const fn tail(mut self, tail: Tail) -> Spec {
        self.tail = Some(tail);
        self
    }

    const fn events(mut self, events: u8) -> Spec {
        self.events = events;
        self
    }
}

const SWITCHED: &[&str] = &["runnext", "local"];
const FOUND: &[&str] = &[
    "runnext",
    "local",
    "global",
    "stolen",
    "stolen-runnext",
    "netpoll",
    "timer",
    "handoff",
    "locked",
    "wired",
    "urgent",
];
const WAKER: &[&str] = &[
    "goroutine",
    "netpoll",
    "timer",
    "sysmon",
    "external",
    "runtime",
];
const PREEMPTION: &[&str] = &["cooperative", "signal", "unknown"];
const G_STATES: &[&str] = &["", "runnable", "running", "syscall", "waiting"];

/// Every kind of record, in the order of [`Kind`].
pub const SPECS: &[Spec] = &[
    // ---- goroutines
    spec(Kind::ParkStart, "ParkStart", 0x01, "The current goroutine waits for what the slot says; `g` runs next, found as the value says.")
        .args(&["dt", "wait_slot", "g", "seq"]).values(4, SWITCHED).seq().events(2),
    spec(Kind::YieldStart, "YieldStart", 0x05, "The current goroutine yields; `g` runs next.")
        .args(&["dt", "g", "seq"]).values(4, SWITCHED).seq().events(2),
    spec(Kind::ExitStart, "ExitStart", 0x09, "The current goroutine returned from its function; `g` runs next.")
        .args(&["dt", "g", "seq"]).values(4, SWITCHED).seq().events(2),
    spec(Kind::Start, "Start", 0x10, "`g` begins to run on this M's P, found as the value says.")
        .args(&["dt", "g", "seq"]).values(32, FOUND).seq(),
    spec(Kind::Ready, "Ready", 0x30, "`g` stops waiting and becomes runnable, made so by whom the value says.")
        .args(&["dt", "g", "seq"]).values(16, WAKER).seq(),
    spec(Kind::Park, "Park", 0x40, "The current goroutine waits for what the slot says.")
        .args(&["dt", "wait_slot"]),
    spec(Kind::Yield, "Yield", 0x41, "The current goroutine gives up its P by its own will."),
    spec(Kind::Preempted, "Preempted", 0x44, "The current goroutine was made to give up its P.")
        .values(4, PREEMPTION),
    spec(Kind::Exit, "Exit", 0x48, "The current goroutine ends.")
        .values(4, &["returned", "panicked", "goexit", "cancelled"]),
    spec(Kind::Create, "Create", 0x42, "The current goroutine (or the runtime) made `child`, runnable, with sequence number 0; the site names its start function and where it was made.")
        .args(&["dt", "child_g", "created_site"]),
    spec(Kind::Label, "Label", 0x43, "The current goroutine gets a label; the empty one takes it away.")
        .args(&["dt", "label_text"]),
    spec(Kind::PreemptRequest, "PreemptRequest", 0x50, "Somebody wants P `victim` back, on which the goroutine runs.")
        .args(&["dt", "victim_p", "goroutine"]).values(8, &["slice", "urgent", "stop"]),
    spec(Kind::GoStatus, "GoStatus", 0x58, "What `g` was doing when the generation began; its sequence number is 0.")
        .args(&["dt", "g", "on_optional_m", "reason_text", "object", "wait_site", "created_site", "creator_goroutine", "label_text"])
        .values(8, G_STATES),
    spec(Kind::WaitDef, "WaitDef", 0x4c, "From here to the end of the block (or the next WaitDef of the slot) the slot means this reason, object and site.")
        .args(&["wait_slot", "reason_text", "object", "wait_site"]).events(0),
    spec(Kind::AtStack, "AtStack", 0x4d, "The next event of the block happened at this stack.")
        .args(&["stack"]).events(0),
    // ---- queues
    spec(Kind::Steal, "Steal", 0x60, "This M's search took goroutines from P `victim`, the one that is run included.")
        .args(&["dt", "victim_p", "goroutines_count"]).values(4, &["ring", "runnext", "timers"]).group(Group::Queue),
    spec(Kind::StealFailed, "StealFailed", 0x64, "A search by stealing ended without a goroutine after this many queues.")
        .args(&["dt", "attempts_count"]).group(Group::Queue),
    spec(Kind::Overflow, "Overflow", 0x65, "The full ring moved goroutines to the global queue.")
        .args(&["dt", "goroutines_count"]).group(Group::Queue),
    spec(Kind::GlobalBatch, "GlobalBatch", 0x66, "Goroutines were taken from the global queue, the one that is run included.")
        .args(&["dt", "goroutines_count"]).group(Group::Queue),
    // ---- Ps
    spec(Kind::ProcStart, "ProcStart", 0x68, "This M begins to work with `p`.")
        .args(&["dt", "p", "seq"]).group(Group::Proc),
    spec(Kind::ProcStop, "ProcStop", 0x69, "This M's P becomes idle.").group(Group::Proc),
    spec(Kind::RunWithoutP, "RunWithoutP", 0x6a, "This M goes on in user code without a P, until it stops.").group(Group::Proc),
    spec(Kind::ProcsChange, "ProcsChange", 0x6b, "The number of Ps is now this.")
        .args(&["dt", "procs_count"]).group(Group::Proc),
    spec(Kind::ProcSteal, "ProcSteal", 0x6c, "P `victim` was taken from the M that held it, for the reason that the value gives.")
        .args(&["dt", "victim_p", "seq", "from_optional_m"])
        .values(4, &["syscall", "implicit-syscall", "frozen"]).group(Group::Proc),
    spec(Kind::ProcHandoff, "ProcHandoff", 0x70, "This M gave its P to another one.")
        .args(&["dt", "to_optional_m"])
        .values(8, &["syscall", "locked", "wired", "frozen"]).group(Group::Proc),
    spec(Kind::ProcStatus, "ProcStatus", 0x78, "What `p` was doing when the generation began; its sequence number is 0.")
        .args(&["dt", "p", "on_optional_m"]).values(4, &["", "running", "idle", "syscall"]).group(Group::Proc),
    // ---- Ms
    spec(Kind::MCreate, "MCreate", 0x80, "This M had a thread made for M `child`.")
        .args(&["dt", "child_m"]).group(Group::Thread),
    spec(Kind::MExit, "MExit", 0x81, "This M ends.").group(Group::Thread),
    spec(Kind::MPark, "MPark", 0x82, "This M goes to sleep: nothing to do.").group(Group::Thread),
    spec(Kind::MWake, "MWake", 0x83, "This M wakes M `target`.")
        .args(&["dt", "target_m"]).group(Group::Thread),
    spec(Kind::SpinBegin, "SpinBegin", 0x84, "This M begins to look for work that it does not know of.").group(Group::Thread),
    spec(Kind::SpinEnd, "SpinEnd", 0x86, "This M ends to look for work.")
        .values(2, &["nothing", "found"]).group(Group::Thread),
    spec(Kind::MLock, "MLock", 0x88, "The current goroutine was locked to this M.").group(Group::Thread),
    spec(Kind::MUnlock, "MUnlock", 0x89, "The current goroutine is no longer locked to this M.").group(Group::Thread),
    spec(Kind::MCpu, "MCpu", 0x8a, "CPU time that this M has used since its thread was made.")
        .args(&["dt", "cpu_nanos"]).group(Group::Thread),
    spec(Kind::SchedSample, "SchedSample", 0x8b, "The switch that ended here took the scheduler this long.")
        .args(&["dt", "took_units"]).group(Group::Thread),
    // ---- system calls, network, timers
    spec(Kind::SyscallEnter, "SyscallEnter", 0x90, "The current goroutine enters a system call; the P takes its next sequence number, which is not written.")
        .args(&["dt", "call_site", "stack"]).group(Group::Waiting),
    spec(Kind::SyscallExit, "SyscallExit", 0x91, "The current goroutine is back and goes on with a P.").group(Group::Waiting),
    spec(Kind::SyscallExitBlocked, "SyscallExitBlocked", 0x92, "The current goroutine is back, has no P and is runnable.").group(Group::Waiting),
    spec(Kind::SyscallImplicit, "SyscallImplicit", 0x93, "`g` was found blocked in the kernel on M `on`, by its CPU clock, and loses its P.")
        .args(&["dt", "g", "on_m"]).group(Group::Waiting),
    spec(Kind::Netpoll, "Netpoll", 0x98, "The network was polled, and this many goroutines became ready.")
        .args(&["dt", "ready_count"]).values(2, &["nonblocking", "blocking"]).group(Group::Waiting),
    spec(Kind::TimerFired, "TimerFired", 0x9a, "A timer fired, this late, for the goroutine (or none).")
        .args(&["dt", "late_units", "goroutine"]).group(Group::Waiting),
    // ---- stop the world, collection
    spec(Kind::StopRequested, "StopRequested", 0xa0, "The current goroutine (or the runtime) wants the world stopped.")
        .args(&["dt", "what_text"]).group(Group::Stop),
    spec(Kind::Stopped, "Stopped", 0xa1, "Every M has reached a safe point.").group(Group::Stop),
    spec(Kind::Restarted, "Restarted", 0xa2, "The world goes on.").group(Group::Stop),
    spec(Kind::SafePoint, "SafePoint", 0xa4, "This M has reached a safe point.")
        .values(4, PREEMPTION).group(Group::Stop),
    spec(Kind::GcBegin, "GcBegin", 0xa8, "A collection cycle begins.")
        .args(&["dt", "cycle_count"]).group(Group::Stop),
    spec(Kind::GcActive, "GcActive", 0xa9, "A collection cycle is running (first seen so).")
        .args(&["dt", "cycle_count"]).group(Group::Stop),
    spec(Kind::GcEnd, "GcEnd", 0xaa, "A collection cycle ends.")
        .args(&["dt", "cycle_count", "pages_count", "stacks_count"]).group(Group::Stop),
    spec(Kind::Metric, "Metric", 0xab, "A figure of the program changed.")
        .args(&["dt", "name_text", "value_count"]).group(Group::Stop),
    // ---- the program's own events
    spec(Kind::TaskBegin, "TaskBegin", 0xb0, "A task begins, part of another one or not.")
        .args(&["dt", "task", "parent_task", "name_text"]).group(Group::User),
    spec(Kind::TaskEnd, "TaskEnd", 0xb1, "A task ends.")
        .args(&["dt", "task"]).group(Group::User),
    spec(Kind::RegionBegin, "RegionBegin", 0xb2, "A region of the current goroutine begins.")
        .args(&["dt", "task", "name_text"]).group(Group::User),
    spec(Kind::RegionEnd, "RegionEnd", 0xb3, "A region of the current goroutine ends.")
        .args(&["dt", "task", "name_text"]).group(Group::User),
    spec(Kind::Log, "Log", 0xb4, "The program says something; the message is the tail.")
        .args(&["dt", "task", "key_text"]).tail(Tail::Bytes).group(Group::User),
    // ---- samples
    spec(Kind::CpuSample, "CpuSample", 0xc0, "The CPU profiler looked; the time is absolute.")
        .args(&["at_ticks", "on_optional_p", "on_optional_m", "goroutine", "stack"]).group(Group::Sample),
    // ---- tables
    spec(Kind::String, "String", 0xd0, "Defines a string of the generation.")
        .args(&["string_id"]).tail(Tail::Bytes).group(Group::Table).events(0),
    spec(Kind::Site, "Site", 0xd1, "Defines a place in the source.")
        .args(&["site_id", "function_text", "file_text", "line_count", "column_count"]).group(Group::Table).events(0),
    spec(Kind::Stack, "Stack", 0xd2, "Defines a stack by its addresses.")
        .args(&["stack_id"]).tail(Tail::Addresses).group(Group::Table).events(0),
    spec(Kind::Module, "Module", 0xd3, "A piece of a loaded file: where its addresses are, and in which file they are to be looked up.")
        .args(&["start_address", "end_address", "offset_count", "path_text", "build_text"]).group(Group::Table).events(0),
    // ---- the trace itself
    spec(Kind::ClockPair, "ClockPair", 0xe0, "The trace clock, the monotonic and the wall clock, read together.")
        .args(&["trace_ticks", "mono_nanos", "wall_nanos"]).group(Group::Control).events(0),
    spec(Kind::GenBegin, "GenBegin", 0xe1, "The generation begins.")
        .args(&["generation_count"]).group(Group::Control).events(0),
    spec(Kind::GenEnd, "GenEnd", 0xe2, "The generation is whole: so many blocks (control blocks not counted) with so many events, and so many events lost.")
        .args(&["generation_count", "blocks_count", "events_count", "lost_count"]).group(Group::Control).events(0),
    spec(Kind::Loss, "Loss", 0xe3, "Events were lost here: no block was free.")
        .args(&["events_count"]).group(Group::Control),
    spec(Kind::TraceEnd, "TraceEnd", 0xe4, "The trace was finished: so many generations, events and lost events.")
        .args(&["generations_count", "events_count", "lost_count"]).group(Group::Control).events(0),
];

impl Kind {
    /// The row of this kind.
    pub const fn spec(self) -> &'static Spec {
        &SPECS[self as usize]
    }

    /// The head of this kind with small value `value`; `with_seq` where its sequence number follows.
    #[inline]
    pub const fn head(self, value: u8, with_seq: bool) -> u8 {
        let spec = self.spec();
        if spec.seq_form {
            spec.head + value * 2 + with_seq as u8
        } else {
            spec.head + value
        }
    }
}

/// What a head byte says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The kind of record.
    pub kind: Kind,
    /// Its small value.
    pub value: u8,
    /// Whether the last argument is a sequence number that other heads of the kind leave out.
    pub with_seq: bool,
    /// How many numbers this version writes, or [`ARITY_LENGTH`].
    pub arity: u8,
    /// Whether the first number is the time since the last stamp.
    pub has_dt: bool,
    /// Which number is a goroutine by its difference from the last one; 0, where no goroutine ever
    /// is, for none.
    pub goroutine_at: u8,
    /// How many events a reader makes of it.
    pub events: u8,
    /// Whether it begins with the time, has no length of its own and changes nothing but what its
    /// events say: nearly all do.
    pub plain: bool,
}

/// Whether a head that a reader does not know has the time as its first number: new heads of events
/// do, and the places from here on are for what has no time.
pub const fn unknown_has_dt(head: u8) -> bool {
    head < 0xc0 && !(head >= 0x4c && head < 0x50)
}

/// The place of the argument of type [`ArgType::G`], which is never the first; 0 where there is none.
const fn goroutine_at(args: &[&str]) -> u8 {
    let mut place = 0;
    while place < args.len() {
        if let [.., b'_', b'g'] | [b'g'] = args[place].as_bytes() {
            return place as u8;
        }
        place += 1;
    }
    0
}

/// What each head byte says; `None` where this version defines nothing.
pub static HEADS: [Option<Head>; 256] = HEAD_TABLE;

/// [`HEADS`] as a constant, for other constants.
pub(crate) const HEAD_TABLE: [Option<Head>; 256] = heads();

const fn heads() -> [Option<Head>; 256] {
    let mut heads = [None; 256];
    let mut row = 0;
    while row < SPECS.len() {
        let spec = &SPECS[row];
        let mut place = 0;
        while place < spec.width {
            let head = spec.head + place;
            assert!(
                heads[head as usize].is_none() && head != END_OF_DATA,
                "a head has two meanings"
            );
            let (value, with_seq) = if spec.seq_form {
                (place / 2, place % 2 == 1)
            } else {
                (place, false)
            };
            heads[head as usize] = Some(Head {
                kind: spec.kind,
                value,
                with_seq,
                arity: spec.arity(head),
                has_dt: !spec.args.is_empty() && matches!(spec.args[0].as_bytes(), b"dt"),
                goroutine_at: goroutine_at(spec.args),
                events: spec.events,
                plain: !spec.args.is_empty()
                    && matches!(spec.args[0].as_bytes(), b"dt")
                    && spec.tail.is_none(),
            });
            place += 1;
        }
        row += 1;
    }
    heads
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stand_in_the_order_of_kinds() {
        for (place, spec) in SPECS.iter().enumerate() {
            assert_eq!(spec.kind as usize, place, "{}", spec.name);
            assert_eq!(spec.name, format!("{:?}", spec.kind));
        }
        assert_eq!(SPECS.len(), Kind::TraceEnd as usize + 1);
    }

    #[test]
    fn rows_are_well_formed() {
        let mut args = 0;
        for spec in SPECS {
            assert!(spec.doc.ends_with('.'), "{}", spec.name);
            assert!(
                spec.args.len() <= crate::limits::MAX_ARGUMENTS,
                "{}",
                spec.name
            );
            let per_value = if spec.seq_form { 2 } else { 1 };
            assert!(
                spec.values.len().max(1) * per_value <= spec.width as usize,
                "{}",
                spec.name
            );
            if spec.seq_form {
                assert_eq!(spec.args.last(), Some(&"seq"), "{}", spec.name);
            }
            for arg in spec.args {
                assert!(arg_type(arg).is_some(), "{}: {arg}", spec.name);
                assert!(
                    *arg != "dt" || spec.args.first() == Some(arg),
                    "{}",
                    spec.name
                );
                args += 1;
            }
        }
        assert!(args > 100);
    }

    #[test]
    fn heads_lead_back_to_their_rows() {
        let mut defined = 0;
        for (byte, head) in HEADS.iter().enumerate() {
            let Some(head) = head else { continue };
            assert_eq!(head.kind.head(head.value, head.with_seq) as usize, byte);
            let spec = head.kind.spec();
            assert_eq!(head.has_dt, spec.has_dt());
            assert!(!head.has_dt || unknown_has_dt(byte as u8), "{}", spec.name);
            let of_type_g = spec
                .args
                .iter()
                .position(|a| arg_type(a) == Some(ArgType::G));
            assert_eq!(
                usize::from(head.goroutine_at),
                of_type_g.unwrap_or(0),
                "{}",
                spec.name
            );
            defined += 1;
        }
        let widths: usize = SPECS.iter().map(|s| s.width as usize).sum();
        assert_eq!(defined, widths);
        assert_eq!(HEADS[END_OF_DATA as usize], None);
    }

    #[test]
    fn types_of_names() {
        assert_eq!(arg_type("on_optional_m"), Some(ArgType::OptionalM));
        assert_eq!(arg_type("child_m"), Some(ArgType::M));
        assert_eq!(arg_type("goroutine"), Some(ArgType::Goroutine));
        assert_eq!(arg_type("something"), None);
    }
}

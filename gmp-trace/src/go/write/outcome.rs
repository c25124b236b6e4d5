//! What became of a trace: what was written, and what is not as it was.

use std::collections::BTreeMap;

use crate::event::Body;

/// What became of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Outcome {
    /// The number in the header: 26, or 23 for a trace that does not know the wall clock, which every
    /// generation has to tell since 1.25.
    pub version: u16,
    /// Generations that were begun.
    pub generations: u64,
    /// Events of the trace that were written.
    pub events: u64,
    /// Bytes that were written.
    pub bytes: u64,
    /// Events that were not written, because Go's format has nothing like them, or not there, by kind.
    pub left_out: BTreeMap<&'static str, u64>,
    /// Events that Go's reader wants and the trace does not have, by Go's name.
    pub added: BTreeMap<&'static str, u64>,
    /// Strings that were cut to 1024 bytes.
    pub cut_strings: u64,
    /// Stacks of which the outermost frames were left out, to have 128.
    pub cut_stacks: u64,
}

/// The name of a kind of event that may be left out.
pub(super) fn kind(body: &Body) -> &'static str {
    match body {
        Body::GoCreate { .. } => "GoCreate",
        Body::GoStart { .. } => "GoStart",
        Body::GoYield { .. } => "GoYield",
        Body::GoPreempted { .. } => "GoPreempted",
        Body::GoPreemptRequested { .. } => "GoPreemptRequested",
        Body::GoPark { .. } => "GoPark",
        Body::GoReady { .. } => "GoReady",
        Body::GoExit { .. } => "GoExit",
        Body::GoLabel { .. } => "GoLabel",
        Body::GoStatus { .. } => "GoStatus",
        Body::SyscallEnter { .. } => "SyscallEnter",
        Body::SyscallExit => "SyscallExit",
        Body::SyscallExitBlocked => "SyscallExitBlocked",
        Body::SyscallImplicit { .. } => "SyscallImplicit",
        Body::ProcStart => "ProcStart",
        Body::ProcStop => "ProcStop",
        Body::ProcSteal { .. } => "ProcSteal",
        Body::ProcHandoff { .. } => "ProcHandoff",
        Body::ProcStatus { .. } => "ProcStatus",
        Body::ProcsChange { .. } => "ProcsChange",
        Body::RunWithoutP => "RunWithoutP",
        Body::Steal { .. } => "Steal",
        Body::StealFailed { .. } => "StealFailed",
        Body::RunqOverflow { .. } => "RunqOverflow",
        Body::GlobalBatch { .. } => "GlobalBatch",
        Body::MCreate { .. } => "MCreate",
        Body::MExit => "MExit",
        Body::MPark => "MPark",
        Body::MWake { .. } => "MWake",
        Body::SpinBegin => "SpinBegin",
        Body::SpinEnd { .. } => "SpinEnd",
        Body::MLock => "MLock",
        Body::MUnlock => "MUnlock",
        Body::MCpu { .. } => "MCpu",
        Body::SchedSample { .. } => "SchedSample",
        Body::Netpoll { .. } => "Netpoll",
        Body::TimerFired { .. } => "TimerFired",
        Body::StopRequested { .. } => "StopRequested",
        Body::SafePoint { .. } => "SafePoint",
        Body::Stopped => "Stopped",
        Body::Restarted => "Restarted",
        Body::RangeBegin { .. } => "RangeBegin",
        Body::RangeEnd { .. } => "RangeEnd",
        Body::GcBegin { .. } => "GcBegin",
        Body::GcActive { .. } => "GcActive",
        Body::GcEnd { .. } => "GcEnd",
        Body::Metric { .. } => "Metric",
        Body::TaskBegin { .. } => "TaskBegin",
        Body::TaskEnd { .. } => "TaskEnd",
        Body::RegionBegin { .. } => "RegionBegin",
        Body::RegionEnd { .. } => "RegionEnd",
        Body::Log { .. } => "Log",
        Body::CpuSample { .. } => "CpuSample",
        Body::Sync { .. } => "Sync",
        Body::Loss { .. } => "Loss",
        Body::Unknown { .. } => "Unknown",
    }
}

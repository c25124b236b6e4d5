//! Answers out of spans: sums, percentiles, groups, findings. Pure: no input or output, no clock,
//! no printing.

pub mod blocking;
pub mod breakdown;
pub mod collect;
pub mod distribution;
pub mod filter;
pub mod findings;
pub mod goroutines;
pub mod groups;
pub mod latency;
pub mod names;
pub mod parallelism;
pub mod report;
pub mod rescues;
pub mod runs;
pub mod schedtrace;
pub mod stacks;
pub mod steal;
pub mod timeline;
pub mod utilization;
pub mod window;

mod histogram;

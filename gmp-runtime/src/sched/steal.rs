//! Taking work from other Ps.

use crate::prim::hint;
use crate::sched::m::M;
use crate::sched::p::P;
use crate::sched::refs::GRef;
use crate::sched::timers;
use crate::sys::clock::monotonic_ns;
use crate::trace::marks::{Found, StealFrom};

/// How often a spinning M goes round the other Ps before it gives up (Go's `stealWork`: 4).
const STEAL_ROUNDS: u32 = 4;

/// How long a thief leaves the `runnext` of a running P alone: that goroutine is probably about to be
/// switched to (Go's `runqgrab`).
const RUNNEXT_GRACE_NS: u64 = 3_000;

/// What came of it.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// This goroutine; more may be in the queue now.
    Stolen(GRef, Found),
    /// Timers of another P were due, and made goroutines runnable here.
    TimersRan,
    /// No P has anything to take.
    Nothing,
}

/// Goes round the other Ps, in random order, four times; `runnext` and timers only the last time
/// (Go's `stealWork`).
pub(crate) fn steal_work(m: &M, p: &P) -> Outcome {
    let sched = m.sched;
    let mut attempts = 0;
    for round in 0..STEAL_ROUNDS {
        let last = round == STEAL_ROUNDS - 1;
        for victim in VictimOrder::new(sched.proc_span(), p.random()) {
            let victim = sched.proc_at(victim);
            if victim.id == p.id {
                continue;
            }
            attempts += 1;
            if last {
                let fired = timers::run_due(m, &victim);
                if fired > 0 {
                    m.tracer.steal(m, &victim, fired, StealFrom::Timers);
                    return Outcome::TimersRan;
                }
            }
            if let Some(stolen) = victim.runq.steal_into(p.queue()) {
                m.tracer.steal(m, &victim, stolen.count, StealFrom::Ring);
                return Outcome::Stolen(GRef::from_non_null(stolen.goroutine), Found::Stolen);
            }
            let hurried = p.perturbs(4);
            if (last || hurried)
                && let Some(next) = victim.runq.peek_next()
            {
                if !hurried && victim.m().is_some() && victim.in_call_of().is_none() {
                    leave_alone(RUNNEXT_GRACE_NS);
                }
                if victim.runq.steal_next(next) {
                    m.tracer.steal(m, &victim, 1, StealFrom::Runnext);
                    return Outcome::Stolen(GRef::from_non_null(next), Found::StolenRunnext);
                }
            }
        }
        if sched.stopping() {
            break;
        }
    }
    m.tracer.steal_failed(m, attempts);
    Outcome::Nothing
}

/// Lets `ns` nanoseconds pass. Sleeping would take longer: the kernel rounds by 50 µs.
fn leave_alone(ns: u64) {
    let until = monotonic_ns() + ns;
    while monotonic_ns() < until {
        hint::spin_loop();
    }
}

/// Every number below `count` once, from a random one on, with a random step that has no divisor in
/// common with `count` (Go's `randomOrder`).
#[derive(Debug)]
struct VictimOrder {
    count: u32,
    left: u32,
    at: u32,
    step: u32,
}

impl VictimOrder {
    fn new(count: u32, random: u32) -> VictimOrder {
        let coprimes = (1..=count).filter(|&step| gcd(step, count) == 1).count() as u32;
        let chosen = (random / count) % coprimes;
        let step = (1..=count)
            .filter(|&step| gcd(step, count) == 1)
            .nth(chosen as usize);
        VictimOrder {
            count,
            left: count,
            at: random % count,
            step: step.unwrap_or(1),
        }
    }
}

impl Iterator for VictimOrder {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        self.left = self.left.checked_sub(1)?;
        let now = self.at;
        self.at = (self.at + self.step) % self.count;
        Some(now)
    }
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_victim_once_in_many_orders() {
        for count in 1..=17 {
            let mut orders = std::collections::HashSet::new();
            for random in 0..500u32 {
                let order: Vec<u32> =
                    VictimOrder::new(count, random.wrapping_mul(2_654_435_761)).collect();
                let mut sorted = order.clone();
                sorted.sort_unstable();
                assert_eq!(sorted, (0..count).collect::<Vec<_>>());
                orders.insert(order);
            }
            assert!(orders.len() >= count as usize, "{count}: {}", orders.len());
        }
    }
}

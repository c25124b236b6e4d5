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

/// For how long an M that stole its last work looks on before it sleeps: about what its waker would pay for it. Whoever
/// makes goroutines that run no longer than a wake takes would else wake it for each of them (go#54622).
const LOOK_ON_NS: u64 = 10_000;

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
                m.has_stolen.set(true);
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
                    m.has_stolen.set(true);
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

/// Waits for work, for [`LOOK_ON_NS`] at most, if `m` has stolen some since it last did so; whether there may be some.
pub(crate) fn look_on(m: &M, p: &P) -> bool {
    let sched = m.sched;
    if !m.has_stolen.replace(false) {
        return false;
    }
    let until = monotonic_ns() + LOOK_ON_NS;
    loop {
        if sched.work_waits() || sched.world.is_to_stop() || p.wants_attention() {
            return true;
        }
        if monotonic_ns() >= until {
            return false;
        }
        hint::spin_loop();
    }
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

    /// Somebody else's ring comes before anybody's `runnext` and timers, whichever P is visited first.
    // Perturbing hurries.
    #[cfg(not(any(loom, gmp_sched_fuzz)))]
    #[test]
    fn runnext_and_timers_are_left_until_the_last_round() {
        use crate::sched::Sched;
        use crate::sched::g::{Wait, WaitReason, transition};
        use crate::sched::timers::Alarm;

        let sched: &'static Sched = Box::leak(Box::new(Sched::new(4, 0).unwrap()));
        sched.make_procs_idle();
        let [p, timer, next, ring] = [(); 4].map(|()| sched.take_idle_p().unwrap());
        let goroutine = || {
            let g = sched.take_free_from_outside().unwrap();
            transition!(g, Idle => Runnable);
            g
        };
        let (thief, other) = (sched.new_m(), sched.new_m());
        thief.acquire_p(p);
        for round in 0..100 {
            other.acquire_p(timer);
            let sleeper = goroutine();
            transition!(sleeper, Runnable => Running);
            sleeper.wait.begin(
                Wait {
                    reason: WaitReason::Sleep,
                    object: 0,
                    site: std::panic::Location::caller(),
                },
                0,
            );
            transition!(sleeper, Running => Waiting);
            let mut alarm = Alarm::new(sleeper, 1, None);
            timers::start(&other, &raw mut alarm);
            let [first, second] = [(); 2].map(|()| goroutine());
            sched.put_local(&other, &next, first, true);
            sched.put_local(&other, &ring, second, false);
            let Outcome::Stolen(g, Found::Stolen) = steal_work(&thief, &p) else {
                panic!("round {round}: the ring does not come first");
            };
            assert_eq!(g, second);
            // Now these two, in the order of the victims.
            let mut seen = [false; 2];
            for _ in 0..2 {
                match steal_work(&thief, &p) {
                    Outcome::Stolen(g, Found::StolenRunnext) => seen[0] = g == first,
                    Outcome::TimersRan => {
                        seen[1] = p.take_next().is_some_and(|(g, _)| g == sleeper);
                    }
                    other => panic!("{other:?}"),
                }
            }
            assert_eq!(seen, [true; 2]);
            assert!(matches!(steal_work(&thief, &p), Outcome::Nothing));
            other.release_p();
        }
    }

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

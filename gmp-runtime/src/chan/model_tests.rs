//! Models of a channel and of a select: threads stand for goroutines, each on an M of its own.
//!
//! What is modelled is the channel with its queues, its lock and its tickets; how a goroutine is made ready
//! is the business of the models of `sched`. Each model counts values: none is lost, none comes twice.

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicUsize as Count, Ordering::SeqCst};

use loom::sync::{Arc, Notify};
use loom::thread;

use super::core::{Channel, Received, Sent};
use super::queue::{Outcome, Waiter};
use crate::prim::atomic::{AtomicBool, Ordering};
use crate::sched::g::G;
use crate::sched::refs::GRef;
use crate::sched::ticket::{self, Ticket};

/// The goroutines of a model, by number from 1.
struct World {
    waits: Vec<AtomicBool>,
    ready: Vec<Notify>,
}

/// The name of goroutine `number`: an address that nobody follows.
fn name(number: usize) -> GRef {
    GRef::from_ptr((number * align_of::<G>()) as *mut G).unwrap()
}

impl World {
    fn new(goroutines: usize) -> World {
        World {
            waits: (0..=goroutines).map(|_| AtomicBool::new(false)).collect(),
            ready: (0..=goroutines).map(|_| Notify::new()).collect(),
        }
    }

    fn wake(&self, g: Option<GRef>) {
        let Some(g) = g else { return };
        let number = g.as_ptr() as usize / align_of::<G>();
        // ordering: AcqRel: whoever makes it ready hands it over, as a run queue does.
        let waited = self.waits[number].swap(false, Ordering::AcqRel);
        assert!(waited, "made ready twice, or before it waits");
        self.ready[number].notify();
    }

    /// Says under the lock that `number` waits.
    fn begin_wait(&self, number: usize) {
        // ordering: Relaxed: the lock publishes it.
        self.waits[number].store(true, Ordering::Relaxed);
    }

    fn wait(&self, number: usize) {
        // loom's waits may end for no reason.
        // ordering: Acquire; pairs with the swap in `wake`.
        while self.waits[number].load(Ordering::Acquire) {
            self.ready[number].wait();
        }
    }

    /// Sends as `Channel::send`; how, and whether it waited.
    fn send(&self, channel: &Channel<u32>, number: usize, value: u32) -> (Outcome, bool) {
        channel.lock.lock();
        // SAFETY: the lock is held; the node stays here until it has been taken out.
        unsafe {
            match channel.try_send_locked(value) {
                Sent::Done(woken) => {
                    channel.lock.unlock();
                    self.wake(woken);
                    (Outcome::Done, false)
                }
                Sent::Closed(_) => {
                    channel.lock.unlock();
                    (Outcome::Closed, false)
                }
                Sent::Full(value) => {
                    let mut place = MaybeUninit::new(value);
                    let waiter = Waiter::new(name(number), &raw mut place);
                    channel.queue_sender_locked(&waiter);
                    self.begin_wait(number);
                    channel.lock.unlock();
                    self.wait(number);
                    (waiter.outcome(), true)
                }
            }
        }
    }

    /// Receives as `Channel::receive`; the value, if the channel is not closed, and whether it waited.
    fn receive(&self, channel: &Channel<u32>, number: usize) -> (Option<u32>, bool) {
        channel.lock.lock();
        // SAFETY: as in `send`.
        unsafe {
            match channel.try_receive_locked() {
                Received::Value(value, woken) => {
                    channel.lock.unlock();
                    self.wake(woken);
                    (Some(value), false)
                }
                Received::Closed => {
                    channel.lock.unlock();
                    (None, false)
                }
                Received::Empty => {
                    let mut place = MaybeUninit::uninit();
                    let waiter = Waiter::new(name(number), &raw mut place);
                    channel.queue_receiver_locked(&waiter);
                    self.begin_wait(number);
                    channel.lock.unlock();
                    self.wait(number);
                    let done = waiter.outcome() == Outcome::Done;
                    (done.then(|| place.assume_init_read()), true)
                }
            }
        }
    }

    /// Closes as `Channel::close`; how many waits that ended.
    fn close(&self, channel: &Channel<u32>) -> usize {
        for ended in 0.. {
            channel.lock.lock();
            // SAFETY: the lock is held.
            let woken = unsafe {
                let woken = channel.close_locked();
                channel.lock.unlock();
                woken
            };
            if woken.is_none() {
                return ended;
            }
            self.wake(woken);
        }
        unreachable!("somebody waits for ever again")
    }

    /// Receives from one of two channels, as a select with a deadline; which one, and the value.
    fn select(
        &self,
        channels: [&Channel<u32>; 2],
        number: usize,
        ticket: &Ticket,
    ) -> Option<(usize, u32)> {
        let mut places = [MaybeUninit::uninit(), MaybeUninit::uninit()];
        // SAFETY: as in `send`; the locks are taken in one order, and each waiter is out of its queue in the end.
        unsafe {
            channels.iter().for_each(|channel| channel.lock.lock());
            for (index, channel) in channels.iter().enumerate() {
                if let Received::Value(value, woken) = channel.try_receive_locked() {
                    channels.iter().for_each(|channel| channel.lock.unlock());
                    self.wake(woken);
                    return Some((index, value));
                }
            }
            let [first, second] = &mut places;
            let waiters = [(first, 1), (second, 2)].map(|(place, case)| {
                Waiter::with_ticket(name(number), &raw mut *place, ticket, case)
            });
            for (channel, waiter) in channels.iter().zip(&waiters) {
                channel.queue_receiver_locked(waiter);
            }
            self.begin_wait(number);
            channels.iter().for_each(|channel| channel.lock.unlock());
            self.wait(number);
            // As in `select::any`: the first one was taken out by whoever woke this one.
            for (index, (channel, waiter)) in channels.iter().zip(&waiters).enumerate() {
                if index as u32 + 1 != ticket.winner() {
                    channel.forget(waiter, false);
                }
            }
            let given = waiters
                .each_ref()
                .map(|waiter| waiter.outcome() == Outcome::Done);
            match ticket.winner() {
                ticket::TIMER => {
                    assert_eq!(given, [false, false], "nothing is given after the deadline");
                    None
                }
                case => {
                    let index = case as usize - 1;
                    assert!(given[index] && !given[1 - index], "one case is done");
                    Some((index, places[index].assume_init_read()))
                }
            }
        }
    }
}

/// Runs `model` with at most two preemptions in an execution; it counts what it wants to have seen.
fn check<const KINDS: usize>(model: impl Fn(&[Count; KINDS]) + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(builder.preemption_bound.map_or(2, |bound| bound.min(2)));
    let executions = std::sync::Arc::new(Count::new(0));
    let seen = std::sync::Arc::new([const { Count::new(0) }; KINDS]);
    let (counted, noted) = (executions.clone(), seen.clone());
    builder.check(move || {
        model(&noted);
        counted.fetch_add(1, SeqCst);
    });
    let seen = seen.each_ref().map(|seen| seen.load(SeqCst));
    println!(
        "{} executions, {seen:?} of each kind",
        executions.load(SeqCst)
    );
    assert!(seen.iter().all(|&seen| seen > 0), "{seen:?} of each kind");
}

fn two_senders_one_receiver(capacity: usize) {
    check(move |seen: &[Count; 2]| {
        let world = Arc::new((World::new(3), Channel::<u32>::new(capacity)));
        let senders: Vec<_> = (1..=2)
            .map(|number| {
                let world = Arc::clone(&world);
                thread::spawn(move || world.0.send(&world.1, number, number as u32))
            })
            .collect();
        let (first, first_waited) = world.0.receive(&world.1, 3);
        let (second, second_waited) = world.0.receive(&world.1, 3);
        let mut values = [first, second];
        values.sort_unstable();
        assert_eq!(values, [Some(1), Some(2)], "both values, each once");
        for sender in senders {
            let (sent, waited) = sender.join().unwrap();
            assert_eq!(sent, Outcome::Done);
            seen[0].fetch_add(usize::from(waited), SeqCst);
        }
        seen[1].fetch_add(usize::from(first_waited || second_waited), SeqCst);
    });
}

#[test]
fn loom_channel_without_a_buffer() {
    two_senders_one_receiver(0);
}

#[test]
fn loom_channel_with_a_buffer() {
    two_senders_one_receiver(1);
}

/// A value arrives, or its sender learns that it did not.
#[test]
fn loom_channel_that_is_closed() {
    check(|seen: &[Count; 3]| {
        let world = Arc::new((World::new(2), Channel::<u32>::new(0)));
        let sender = {
            let world = Arc::clone(&world);
            thread::spawn(move || world.0.send(&world.1, 1, 7).0)
        };
        let receiver = {
            let world = Arc::clone(&world);
            thread::spawn(move || world.0.receive(&world.1, 2).0)
        };
        let ended = world.0.close(&world.1);
        let (sent, received) = (sender.join().unwrap(), receiver.join().unwrap());
        match sent {
            Outcome::Done => assert_eq!(received, Some(7)),
            Outcome::Closed => assert_eq!(received, None),
            Outcome::Pending => panic!("woken for nothing"),
        }
        assert!(ended <= 1, "a sender and a receiver do not both wait");
        seen[0].fetch_add(usize::from(sent == Outcome::Done), SeqCst);
        seen[1].fetch_add(usize::from(sent == Outcome::Closed), SeqCst);
        seen[2].fetch_add(ended, SeqCst);
    });
}

#[test]
fn loom_select_two_senders_and_a_deadline() {
    check(|seen: &[Count; 3]| {
        let world = Arc::new((
            World::new(1),
            [Channel::<u32>::new(1), Channel::<u32>::new(1)],
            Ticket::new(),
        ));
        // Senders put their value into a buffer where the select has ended before.
        let senders: Vec<_> = (0..2)
            .map(|index| {
                let world = Arc::clone(&world);
                thread::spawn(move || {
                    let channel = &world.1[index];
                    channel.lock.lock();
                    // SAFETY: the lock is held.
                    let sent = unsafe {
                        let sent = channel.try_send_locked(10 + index as u32);
                        channel.lock.unlock();
                        sent
                    };
                    match sent {
                        Sent::Done(woken) => world.0.wake(woken),
                        Sent::Full(_) | Sent::Closed(_) => panic!("there is room"),
                    }
                })
            })
            .collect();
        let channels = [&world.1[0], &world.1[1]];
        // The deadline passes at some moment while it waits, or before.
        let timer = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                // ordering: Acquire: as a lock of the timers gives.
                if world.0.waits[1].load(Ordering::Acquire) && world.2.claim(ticket::TIMER) {
                    world.0.wake(Some(name(1)));
                }
            })
        };
        let selected = world.0.select(channels, 1, &world.2);
        senders
            .into_iter()
            .for_each(|sender| sender.join().unwrap());
        timer.join().unwrap();
        let left = channels.map(|channel| {
            channel.lock.lock();
            // SAFETY: the lock is held.
            unsafe {
                let left = channel.try_receive_locked();
                channel.lock.unlock();
                match left {
                    Received::Value(value, None) => Some(value),
                    Received::Value(_, Some(_)) => panic!("nobody waits to send"),
                    Received::Empty | Received::Closed => None,
                }
            }
        });
        match selected {
            Some((index, value)) => {
                seen[index].fetch_add(1, SeqCst);
                assert_eq!(value, 10 + index as u32);
                assert_eq!(left[index], None, "a value comes once");
                assert_eq!(left[1 - index], Some(11 - index as u32), "and none is lost");
            }
            None => {
                seen[2].fetch_add(1, SeqCst);
                assert_eq!(left, [Some(10), Some(11)], "none is lost");
            }
        }
    });
}

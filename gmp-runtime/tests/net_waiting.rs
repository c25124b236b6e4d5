//! Sockets: who waits, for how long, and who is woken first.

#![allow(clippy::unwrap_used)] // an error where none may be is a failed test

mod common;

use std::io::{ErrorKind, Read, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::net::connected;
use common::{PROCS, run};
use gmp_runtime::net::{TcpListener, TcpStream, UdpSocket, UnixStream};
use gmp_runtime::{channel, go, select, sleep, yield_now};

const MILLI: Duration = Duration::from_millis(1);
const FAR: Duration = Duration::from_secs(100_000);

#[test]
fn closing_ends_every_call_that_waits() {
    for procs in PROCS {
        let ended = run(procs, || {
            let mut waiting = Vec::new();
            let listener = Arc::new(TcpListener::bind("127.0.0.1:0").unwrap());
            let address = listener.local_addr().unwrap();
            let (ours, _theirs) = connected();
            let stream = Arc::new(ours);
            let udp = Arc::new(UdpSocket::bind("127.0.0.1:0").unwrap());
            let (one, _other) = UnixStream::pair().unwrap();
            let unix = Arc::new(one);
            for _ in 0..3 {
                let (l, s, u, x) = (listener.clone(), stream.clone(), udp.clone(), unix.clone());
                waiting.push(go(move || l.accept().map(drop).unwrap_err().kind()));
                waiting.push(go(move || (&*s).read(&mut [0; 8]).unwrap_err().kind()));
                waiting.push(go(move || u.recv(&mut [0; 8]).unwrap_err().kind()));
                waiting.push(go(move || (&*x).read(&mut [0; 8]).unwrap_err().kind()));
            }
            let s = stream.clone();
            waiting.push(go(move || {
                (&*s).write_all(&vec![0; 32 << 20]).unwrap_err().kind()
            }));
            sleep(MILLI * 3);
            listener.close();
            stream.close();
            udp.close();
            unix.close();
            let ended = waiting.len();
            for one in waiting {
                assert_eq!(one.join().unwrap(), ErrorKind::ConnectionAborted);
            }
            // Later calls too, and the others are told.
            assert!(listener.accept().is_err() && (&*stream).read(&mut [0]).is_err());
            assert!(TcpStream::connect(address).is_err());
            ended
        });
        assert_eq!(ended, 13);
    }
}

#[test]
fn a_read_that_takes_too_long_fails_and_the_next_one_is_woken() {
    for procs in PROCS {
        run(procs, || {
            let (mut ours, mut theirs) = connected();
            let limit = MILLI * 2;
            theirs.set_read_timeout(Some(limit)).unwrap();
            assert_eq!(theirs.read_timeout().unwrap(), Some(limit));
            let invalid = theirs.set_read_timeout(Some(Duration::ZERO)).unwrap_err();
            assert_eq!(invalid.kind(), ErrorKind::InvalidInput);
            for _ in 0..5 {
                let start = Instant::now();
                let late = theirs.read(&mut [0; 8]).unwrap_err();
                assert_eq!(late.kind(), ErrorKind::TimedOut);
                assert!(start.elapsed() >= limit);
            }
            theirs.set_read_timeout(None).unwrap();
            let reader = go(move || {
                let mut byte = [0];
                theirs.read_exact(&mut byte).unwrap();
                byte[0]
            });
            sleep(MILLI);
            ours.write_all(b"!").unwrap();
            assert_eq!(reader.join().unwrap(), b'!');
        });
    }
}

#[test]
fn a_deadline_counts_for_whoever_waits_already() {
    for procs in PROCS {
        run(procs, || {
            let (mut ours, theirs) = connected();
            let theirs = Arc::new(theirs);
            theirs.set_read_deadline(Some(Instant::now() + FAR));
            let readers: Vec<_> = (0..3)
                .map(|_| {
                    let stream = theirs.clone();
                    go(move || (&*stream).read(&mut [0; 8]).unwrap_err().kind())
                })
                .collect();
            sleep(MILLI);
            // One that has passed.
            theirs.set_read_deadline(Some(Instant::now()));
            for reader in readers {
                assert_eq!(reader.join().unwrap(), ErrorKind::TimedOut);
            }
            // Also for what is there already, until it is taken away.
            ours.write_all(b"x").unwrap();
            let late = (&*theirs).read(&mut [0; 8]).unwrap_err();
            assert_eq!(late.kind(), ErrorKind::TimedOut);
            theirs.set_read_deadline(None);
            assert_eq!((&*theirs).read(&mut [0; 8]).unwrap(), 1);
        });
    }
}

/// A deadline that passes as the bytes come: they are read once, now or by the next read.
#[test]
fn deadlines_race_with_bytes() {
    for procs in PROCS {
        let (in_time, late) = run(procs, || {
            let (ours, theirs) = connected();
            let (mut in_time, mut late) = (0, 0);
            let (next, rounds) = channel::<u64>(0);
            let writer = go(move || {
                for round in rounds.iter() {
                    sleep(Duration::from_micros(round * 7 % 60));
                    (&ours).write_all(&[round as u8]).unwrap();
                }
            });
            for round in 0..4_000_u64 {
                let deadline = Instant::now() + Duration::from_micros(round * 13 % 90 + 1);
                next.send(round).unwrap();
                theirs.set_read_deadline(Some(deadline));
                let mut byte = [0];
                match (&theirs).read(&mut byte) {
                    Ok(n) => {
                        assert_eq!(n, 1);
                        in_time += 1;
                    }
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::TimedOut);
                        theirs.set_read_deadline(None);
                        assert_eq!((&theirs).read(&mut byte).unwrap(), 1);
                        late += 1;
                    }
                }
                assert_eq!(byte[0], round as u8);
            }
            drop(next);
            writer.join().unwrap();
            (in_time, late)
        });
        assert_eq!(in_time + late, 4_000);
        assert!(late > 0, "no deadline passed");
    }
}

/// A listener whose queue is full does not answer.
#[test]
fn a_connection_that_nobody_answers_times_out() {
    run(1, || {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let short = Duration::from_millis(20);
        let mut kept = Vec::new();
        let error = loop {
            let start = Instant::now();
            match TcpStream::connect_timeout(&address, short) {
                Ok(stream) => kept.push(stream),
                Err(error) => {
                    assert!(start.elapsed() >= short);
                    break error;
                }
            }
            assert!(kept.len() < 10_000, "the queue is never full");
        };
        assert_eq!(error.kind(), ErrorKind::TimedOut);
    });
}

#[test]
fn many_accept_from_one_listener() {
    for procs in PROCS {
        let accepted = run(procs, || {
            let listener = Arc::new(TcpListener::bind("127.0.0.1:0").unwrap());
            let address = listener.local_addr().unwrap();
            let acceptors: Vec<_> = (0..4)
                .map(|_| {
                    let listener = listener.clone();
                    go(move || {
                        let mut accepted = 0;
                        while listener.accept().is_ok() {
                            accepted += 1;
                        }
                        accepted
                    })
                })
                .collect();
            yield_now();
            let clients: Vec<_> = (0..200)
                .map(|_| go(move || TcpStream::connect(address).unwrap()))
                .collect();
            let streams: Vec<_> = clients.into_iter().map(|c| c.join().unwrap()).collect();
            // Each was accepted: the other side was dropped.
            for stream in &streams {
                let _ = (&*stream).read(&mut [0; 8]);
            }
            listener.close();
            acceptors
                .into_iter()
                .map(|a| a.join().unwrap())
                .sum::<u32>()
        });
        assert_eq!(accepted, 200);
    }
}

#[test]
fn several_read_from_one_stream() {
    for procs in PROCS {
        let sum = run(procs, || {
            let (ours, theirs) = connected();
            let theirs = Arc::new(theirs);
            let readers: Vec<_> = (0..4)
                .map(|_| {
                    let stream = theirs.clone();
                    go(move || {
                        let (mut sum, mut one) = (0, [0]);
                        while (&*stream).read(&mut one).unwrap() == 1 {
                            sum += u64::from(one[0]);
                        }
                        sum
                    })
                })
                .collect();
            for round in 0..200_u8 {
                (&ours).write_all(&[round, 1, 2]).unwrap();
                if round % 8 == 0 {
                    yield_now();
                }
            }
            drop(ours);
            readers.into_iter().map(|r| r.join().unwrap()).sum::<u64>()
        });
        assert_eq!(sum, 199 * 100 + 600);
    }
}

// Perturbing changes the order of runs.
#[cfg(not(gmp_sched_fuzz))]
#[test]
fn whoever_waits_longest_reads_first() {
    run(1, || {
        let (ours, theirs) = connected();
        let (ours, theirs) = (Arc::new(ours), Arc::new(theirs));
        let (sender, order) = channel(3);
        for reader in 0..3 {
            let (stream, sender) = (theirs.clone(), sender.clone());
            go(move || {
                (&*stream).read_exact(&mut [0]).unwrap();
                sender.send(reader).unwrap();
            });
            yield_now();
        }
        for reader in 0..3 {
            (&*ours).write_all(b"x").unwrap();
            assert_eq!(order.recv(), Ok(reader));
        }
    });
}

#[test]
fn a_select_on_a_channel_and_the_network() {
    for procs in PROCS {
        run(procs, || {
            let (ours, theirs) = connected();
            let (lines, received) = channel::<u8>(0);
            go(move || {
                let mut byte = [0];
                while (&theirs).read(&mut byte).unwrap() == 1 {
                    lines.send(byte[0]).unwrap();
                }
            });
            let mut got = Vec::new();
            for round in 0..20 {
                (&ours).write_all(&[round]).unwrap();
                select! {
                    recv(received) -> byte => got.push(byte.unwrap()),
                    timeout(FAR) => unreachable!("it is far"),
                }
            }
            assert_eq!(got, (0..20).collect::<Vec<u8>>());
        });
    }
}

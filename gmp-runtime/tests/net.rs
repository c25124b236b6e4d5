//! Sockets: what goroutines do with real ones on the local machine.

#![allow(clippy::unwrap_used)] // an error where none may be is a failed test

mod common;

use std::io::{ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use common::{Directory, PROCS, child, child_case, run, succeed};
use gmp_runtime::net::{TcpListener, TcpStream, UdpSocket, UnixDatagram, UnixListener, UnixStream};
use gmp_runtime::{JoinHandle, channel, go, select, sleep, yield_now};

const MILLI: Duration = Duration::from_millis(1);
const FAR: Duration = Duration::from_secs(100_000);

/// Two ends of a connection.
fn connected() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (theirs, peer) = listener.accept().unwrap();
    assert_eq!(peer, ours.local_addr().unwrap());
    assert_eq!(theirs.local_addr().unwrap(), ours.peer_addr().unwrap());
    (ours, theirs)
}

/// Answers everything on every connection that comes, until the listener is closed.
fn echo_server() -> (Arc<TcpListener>, JoinHandle<usize>) {
    let listener = Arc::new(TcpListener::bind("127.0.0.1:0").unwrap());
    let accepting = Arc::clone(&listener);
    let server = go(move || {
        let mut accepted = 0;
        while let Ok((stream, _)) = accepting.accept() {
            accepted += 1;
            go(move || {
                let mut buffer = [0; 4096];
                loop {
                    match (&stream).read(&mut buffer).unwrap() {
                        0 => break,
                        n => (&stream).write_all(&buffer[..n]).unwrap(),
                    }
                }
            });
        }
        accepted
    });
    (listener, server)
}

/// Bytes that tell connections, and places in them, apart.
fn pattern(connection: usize, len: usize) -> Vec<u8> {
    let byte = |at: usize| (at.wrapping_mul(31) ^ connection.wrapping_mul(131) ^ (at >> 8)) as u8;
    (0..len).map(byte).collect()
}

#[test]
fn every_connection_gets_its_own_bytes_back() {
    for procs in PROCS {
        let bytes = run(procs, || {
            let (listener, server) = echo_server();
            let address = listener.local_addr().unwrap();
            let clients: Vec<_> = (0..60)
                .map(|connection| {
                    go(move || {
                        let stream = TcpStream::connect(address).unwrap();
                        let sent = pattern(connection, 1 + connection * 1777);
                        let mut got = Vec::new();
                        // Many small ones, then all that is left at once, more than the kernel holds.
                        for chunk in sent.chunks(97).take(20) {
                            (&stream).write_all(chunk).unwrap();
                            let mut answer = vec![0; chunk.len()];
                            (&stream).read_exact(&mut answer).unwrap();
                            got.extend(answer);
                        }
                        let (mut reading, mut writing) = stream.into_split();
                        let rest = sent[got.len()..].to_vec();
                        let writer = go(move || writing.write_all(&rest).unwrap());
                        reading.read_to_end(&mut got).unwrap();
                        writer.join().unwrap();
                        assert!(got == sent, "connection {connection}");
                        got.len()
                    })
                })
                .collect();
            let bytes = clients
                .into_iter()
                .map(|c| c.join().unwrap())
                .sum::<usize>();
            listener.close();
            assert_eq!(server.join().unwrap(), 60);
            bytes
        });
        assert_eq!(bytes, (0..60).map(|c| 1 + c * 1777).sum());
    }
}

#[test]
fn large_writes_wait_for_room() {
    const SIZE: usize = 8 << 20;
    for procs in PROCS {
        run(procs, || {
            let (ours, mut theirs) = connected();
            let writer = go(move || (&ours).write_all(&pattern(5, SIZE)).unwrap());
            sleep(MILLI);
            let mut got = Vec::new();
            theirs.read_to_end(&mut got).unwrap();
            assert!(got == pattern(5, SIZE));
            writer.join().unwrap();
        });
    }
}

#[test]
fn several_buffers_at_once() {
    run(2, || {
        let (mut ours, mut theirs) = connected();
        let parts = [
            IoSlice::new(b"one "),
            IoSlice::new(b"two "),
            IoSlice::new(b"three"),
        ];
        assert_eq!(ours.write_vectored(&parts).unwrap(), 13);
        let (mut first, mut second) = ([0; 6], [0; 20]);
        let mut places = [IoSliceMut::new(&mut first), IoSliceMut::new(&mut second)];
        assert_eq!(theirs.read_vectored(&mut places).unwrap(), 13);
        assert_eq!(
            (&first[..], &second[..7]),
            (&b"one tw"[..], &b"o three"[..])
        );
    });
}

#[test]
fn peeking_takes_nothing_out() {
    run(2, || {
        let (mut ours, mut theirs) = connected();
        let mut buffer = [0; 3];
        let writer = go(move || {
            sleep(MILLI);
            ours.write_all(b"abc").unwrap();
            ours
        });
        while theirs.peek(&mut buffer).unwrap() < 3 {}
        theirs.read_exact(&mut buffer).unwrap();
        assert_eq!(&buffer, b"abc");
        drop(writer.join().unwrap());
        assert_eq!(theirs.peek(&mut buffer).unwrap(), 0, "the end");
    });
}

#[test]
fn one_direction_can_end_before_the_other() {
    for procs in PROCS {
        run(procs, || {
            let (mut ours, mut theirs) = connected();
            ours.write_all(b"question").unwrap();
            ours.shutdown(Shutdown::Write).unwrap();
            let mut question = String::new();
            theirs.read_to_string(&mut question).unwrap();
            assert_eq!(question, "question");
            theirs.write_all(b"answer").unwrap();
            drop(theirs);
            let mut answer = String::new();
            ours.read_to_string(&mut answer).unwrap();
            assert_eq!(answer, "answer");
            let late = ours.write_all(b"x");
            assert_eq!(late.unwrap_err().kind(), ErrorKind::BrokenPipe);
        });
    }
}

/// The end comes together with the last bytes, so there is no further event for it.
#[test]
fn the_end_is_seen_after_a_short_read() {
    for procs in PROCS {
        run(procs, || {
            for _ in 0..300 {
                let (mut ours, mut theirs) = connected();
                let mut buffer = [0; 64];
                // It waits, so the event tells of both.
                let reader = go(move || {
                    let mut got = 0;
                    loop {
                        match theirs.read(&mut buffer).unwrap() {
                            0 => return got,
                            n => got += n,
                        }
                    }
                });
                yield_now();
                ours.write_all(b"last words").unwrap();
                drop(ours);
                assert_eq!(reader.join().unwrap(), 10);
            }
        });
    }
}

#[test]
fn a_reset_reaches_whoever_waits() {
    for procs in PROCS {
        run(procs, || {
            let (ours, mut theirs) = connected();
            let reader = go(move || theirs.read(&mut [0; 8]).unwrap_err().kind());
            sleep(MILLI);
            ours.set_linger(Some(Duration::ZERO)).unwrap();
            drop(ours);
            assert_eq!(reader.join().unwrap(), ErrorKind::ConnectionReset);
        });
    }
}

#[test]
fn nobody_listens() {
    run(2, || {
        let address = {
            let listener = TcpListener::bind("localhost:0").unwrap();
            listener.local_addr().unwrap()
        };
        let refused = TcpStream::connect(address).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        let refused = TcpStream::connect_timeout(&address, FAR).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        let invalid = TcpStream::connect_timeout(&address, Duration::ZERO).unwrap_err();
        assert_eq!(invalid.kind(), ErrorKind::InvalidInput);
        assert!(TcpStream::connect("no.such.name.invalid:1").is_err());
    });
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

#[test]
fn datagrams() {
    for procs in PROCS {
        run(procs, || {
            let one = UdpSocket::bind("127.0.0.1:0").unwrap();
            let other = UdpSocket::bind("127.0.0.1:0").unwrap();
            let (here, there) = (one.local_addr().unwrap(), other.local_addr().unwrap());
            let answering = go(move || {
                let mut buffer = [0; 64];
                for _ in 0..100 {
                    let (length, from) = other.recv_from(&mut buffer).unwrap();
                    other.send_to(&buffer[..length], from).unwrap();
                }
                other.set_read_timeout(Some(MILLI)).unwrap();
                other.recv(&mut buffer).unwrap_err().kind()
            });
            one.connect(there).unwrap();
            assert_eq!(one.peer_addr().unwrap(), there);
            let mut buffer = [0; 64];
            for round in 0..100_u8 {
                assert_eq!(one.send(&[round; 3]).unwrap(), 3);
                assert_eq!(one.peek_from(&mut buffer).unwrap(), (3, there));
                assert_eq!(one.recv(&mut buffer).unwrap(), 3);
                assert_eq!(buffer[..3], [round; 3]);
            }
            assert_eq!(answering.join().unwrap(), ErrorKind::TimedOut);
            assert_eq!(one.local_addr().unwrap(), here);
        });
    }
}

#[test]
fn sockets_with_paths() {
    for procs in PROCS {
        let directory = Directory::new(&format!("sockets-{procs}"));
        run(procs, || {
            let path = directory.file("stream");
            let listener = UnixListener::bind(&path).unwrap();
            let server = go(move || {
                let mut got = String::new();
                for stream in listener.incoming().take(3) {
                    stream.unwrap().read_to_string(&mut got).unwrap();
                }
                got
            });
            for word in ["a", "b", "c"] {
                UnixStream::connect(&path)
                    .unwrap()
                    .write_all(word.as_bytes())
                    .unwrap();
            }
            assert_eq!(server.join().unwrap(), "abc");

            let path = directory.file("datagrams");
            let bound = UnixDatagram::bind(&path).unwrap();
            let unbound = UnixDatagram::unbound().unwrap();
            let receiver = go(move || {
                let mut buffer = [0; 8];
                (0..2000)
                    .map(|_| bound.recv(&mut buffer).unwrap())
                    .sum::<usize>()
            });
            unbound.connect(&path).unwrap();
            // More than there is room for.
            (0..2000).for_each(|_| assert_eq!(unbound.send(b"xyz").unwrap(), 3));
            assert_eq!(receiver.join().unwrap(), 6000);
            let (one, other) = UnixDatagram::pair().unwrap();
            one.send(b"pair").unwrap();
            assert_eq!(other.recv(&mut [0; 8]).unwrap(), 4);
        });
    }
}

#[test]
fn threads_and_goroutines_share_a_socket() {
    for procs in PROCS {
        run(procs, || {
            let (ours, mut theirs) = connected();
            let ours = Arc::new(ours);
            let threads: Vec<_> = (0..2)
                .map(|_| {
                    let stream = ours.clone();
                    thread::spawn(move || {
                        let mut byte = [0];
                        (&*stream).read_exact(&mut byte).unwrap();
                        byte[0]
                    })
                })
                .collect();
            let late = thread::spawn({
                let (stream, _keep) = connected();
                move || {
                    let _keep = _keep;
                    stream.set_read_timeout(Some(MILLI)).unwrap();
                    (&stream).read(&mut [0]).unwrap_err().kind()
                }
            });
            sleep(MILLI);
            theirs.write_all(b"ab").unwrap();
            let mut got: Vec<u8> = threads.into_iter().map(|t| t.join().unwrap()).collect();
            got.sort_unstable();
            assert_eq!(got, b"ab");
            assert_eq!(late.join().unwrap(), ErrorKind::TimedOut);
            let waiting = {
                let stream = ours.clone();
                thread::spawn(move || (&*stream).read(&mut [0]).unwrap_err().kind())
            };
            sleep(MILLI * 2);
            ours.close();
            assert_eq!(waiting.join().unwrap(), ErrorKind::ConnectionAborted);
        });
    }
}

/// A socket goes from one runtime to the next, and is watched there.
#[test]
fn a_socket_outlives_its_runtime() {
    for procs in PROCS {
        let (mut ours, theirs) = run(procs, || {
            let (ours, mut theirs) = connected();
            theirs.set_read_timeout(Some(MILLI)).unwrap();
            assert!(theirs.read(&mut [0]).is_err(), "it is watched now");
            theirs.set_read_timeout(None).unwrap();
            (ours, theirs)
        });
        run(procs, || {
            let reader = go(move || {
                let mut byte = [0];
                (&theirs).read_exact(&mut byte).unwrap();
                byte[0]
            });
            sleep(MILLI);
            ours.write_all(b"x").unwrap();
            assert_eq!(reader.join().unwrap(), b'x');
        });
    }
}

/// Two runtimes at once: the second one to wait is told.
#[test]
fn goroutines_of_two_runtimes_cannot_wait_at_once() {
    run(1, || {
        let (ours, theirs) = connected();
        let theirs = Arc::new(theirs);
        let reader = go({
            let stream = theirs.clone();
            move || (&*stream).read(&mut [0; 2]).unwrap()
        });
        sleep(MILLI);
        let other =
            thread::spawn(move || run(1, || (&*theirs).read(&mut [0; 2]).unwrap_err().kind()));
        assert_eq!(other.join().unwrap(), ErrorKind::InvalidInput);
        (&ours).write_all(b"x").unwrap();
        assert_eq!(reader.join().unwrap(), 1);
    });
}

/// Everybody waits for the network, and that is no deadlock, whoever comes last.
#[test]
fn waiting_for_the_network_is_no_deadlock() {
    for procs in PROCS {
        let rounds = run(procs, || {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let client = thread::spawn(move || {
                let mut stream = std::net::TcpStream::connect(address).unwrap();
                for _ in 0..50 {
                    thread::sleep(Duration::from_micros(300));
                    stream.write_all(b"x").unwrap();
                    stream.read_exact(&mut [0]).unwrap();
                }
            });
            let (stream, _) = listener.accept().unwrap();
            let mut rounds = 0;
            while (&stream).read(&mut [0]).unwrap() == 1 {
                (&stream).write_all(b"y").unwrap();
                rounds += 1;
            }
            client.join().unwrap();
            rounds
        });
        assert_eq!(rounds, 50);
    }
}

#[test]
fn goroutines_that_wait_at_the_end_are_unwound() {
    for procs in PROCS {
        let drops = common::Drops::default();
        run(procs, || {
            let (ours, theirs) = connected();
            theirs.set_write_timeout(Some(FAR)).unwrap();
            let shared = Arc::new((ours, theirs));
            for number in 0..20 {
                let (value, streams) = (drops.value(number), shared.clone());
                go(move || {
                    let _value = value;
                    streams
                        .1
                        .set_read_deadline((number % 2 == 0).then(|| Instant::now() + FAR));
                    let _ = (&streams.1).read(&mut [0]);
                });
            }
            sleep(MILLI);
        });
        assert_eq!((drops.made(), drops.alive()), (20, 0));
    }
}

/// One P that is kept busy by goroutines that yield: the network has its turn.
#[test]
fn the_network_is_looked_at_while_every_p_is_busy() {
    for procs in [1, 2] {
        run(procs, || {
            let stop = Arc::new(AtomicBool::new(false));
            let busy: Vec<_> = (0..4 * procs)
                .map(|_| {
                    let stop = stop.clone();
                    go(move || {
                        while !stop.load(SeqCst) {
                            yield_now();
                        }
                    })
                })
                .collect();
            let (listener, server) = echo_server();
            let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            for round in 0..100_u8 {
                stream.write_all(&[round]).unwrap();
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                assert_eq!(byte[0], round);
            }
            listener.close();
            server.join().unwrap();
            stop.store(true, SeqCst);
            busy.into_iter().for_each(|b| b.join().unwrap());
        });
    }
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

/// A copy of the descriptor keeps the socket open after it was dropped here: its events are nobody's.
#[test]
fn events_of_a_dropped_socket_disturb_nobody() {
    const NAME: &str = "events_of_a_dropped_socket_disturb_nobody";
    if child_case().is_none() {
        succeed(&mut child(NAME, "a process of its own"));
        return;
    }
    let ticks = run(1, || {
        let mut copies = Vec::new();
        for _ in 0..50 {
            let (ours, theirs) = connected();
            theirs
                .set_read_timeout(Some(Duration::from_micros(1)))
                .unwrap();
            let _ = (&theirs).read(&mut [0]);
            copies.push((theirs.as_fd().try_clone_to_owned().unwrap(), ours));
            // Its slot goes to another one.
        }
        // Writable, and readable again and again, with nobody interested.
        let before = processor_ticks();
        for _ in 0..50 {
            for (_, ours) in &copies {
                let mut ours = ours;
                ours.write_all(b"x").unwrap();
            }
            sleep(MILLI * 20);
        }
        processor_ticks() - before
    });
    assert!(
        ticks < 60,
        "{ticks} hundredths of a second of processor time in a second"
    );
}

/// Processor time of this process, in hundredths of a second.
fn processor_ticks() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat
        .rsplit(')')
        .next()
        .unwrap()
        .split_whitespace()
        .collect();
    let ticks = |index: usize| fields[index].parse::<u64>().unwrap();
    ticks(11) + ticks(12)
}

/// No descriptors are left: calls fail with what the kernel says, the loop of `incoming` makes pauses and goes
/// on when there are some again, and nothing dies.
#[test]
fn running_out_of_descriptors() {
    const NAME: &str = "running_out_of_descriptors";
    if child_case().is_none() {
        succeed(&mut child(NAME, "a process of its own"));
        return;
    }
    let (failures, served) = run(2, || {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        // Connections wait in the kernel before the process is full.
        let clients: Vec<_> = (0..5)
            .map(|_| TcpStream::connect(address).unwrap())
            .collect();
        let mut files = Vec::new();
        while let Ok(file) = std::fs::File::open("/dev/null") {
            files.push(file);
            assert!(files.len() < 1 << 20, "there is no limit of descriptors");
        }
        assert!(TcpStream::connect(address).is_err());
        assert!(UdpSocket::bind("127.0.0.1:0").is_err());
        assert!(listener.accept().is_err());
        let failures = Arc::new(AtomicUsize::new(0));
        let counter = failures.clone();
        let server = go(move || {
            let mut served = 0;
            for stream in listener.incoming() {
                match stream {
                    Ok(mut stream) => {
                        stream.write_all(b"!").unwrap();
                        served += 1;
                    }
                    Err(_) => {
                        counter.fetch_add(1, SeqCst);
                    }
                }
                if served == 5 {
                    break;
                }
            }
            served
        });
        while failures.load(SeqCst) < 3 {
            sleep(MILLI);
        }
        let while_full = failures.load(SeqCst);
        drop(files);
        for mut client in clients {
            client.read_exact(&mut [0]).unwrap();
        }
        (while_full, server.join().unwrap())
    });
    assert_eq!(served, 5);
    // 5, 10, 20 ms and so on: no busy loop.
    assert!(failures < 20, "{failures} failures");
}

/// Ten thousand connections that nobody uses, in two processes: they cost no thread, and each still works.
#[test]
fn ten_thousand_idle_connections_cost_no_thread() {
    const NAME: &str = "ten_thousand_idle_connections_cost_no_thread";
    const COUNT: usize = 10_000;
    match child_case() {
        // The client: connects to the port on standard input, and waits for a byte on each.
        Some(port) => {
            let address = (std::net::Ipv4Addr::LOCALHOST, port.parse().unwrap());
            let answered = run(2, || {
                let answered = Arc::new(AtomicUsize::new(0));
                let clients: Vec<_> = (0..COUNT)
                    .map(|_| {
                        let answered = answered.clone();
                        let mut stream = TcpStream::connect(address).unwrap();
                        go(move || {
                            let mut byte = [0];
                            stream.read_exact(&mut byte).unwrap();
                            stream.write_all(&byte).unwrap();
                            answered.fetch_add(1, SeqCst);
                        })
                    })
                    .collect();
                clients.into_iter().for_each(|c| c.join().unwrap());
                answered.load(SeqCst)
            });
            assert_eq!(answered, COUNT);
        }
        None => {
            let (threads, answered) = run(2, || {
                let listener = TcpListener::bind("127.0.0.1:0").unwrap();
                let port = listener.local_addr().unwrap().port();
                let client = thread::spawn(move || succeed(&mut child(NAME, &port.to_string())));
                let (wake, woken) = channel::<()>(0);
                let answered = Arc::new(AtomicUsize::new(0));
                let servers: Vec<_> = (0..COUNT)
                    .map(|number| {
                        let (mut stream, _) = listener.accept().unwrap();
                        let (woken, answered) = (woken.clone(), answered.clone());
                        go(move || {
                            if number % 100 == 0 {
                                // A few of them talk first.
                                let _ = woken.recv();
                            }
                            let _ = stream.write_all(&[7]);
                            let mut byte = [0];
                            stream.read_exact(&mut byte).unwrap();
                            assert_eq!(byte[0], 7);
                            answered.fetch_add(1, SeqCst);
                        })
                    })
                    .collect();
                sleep(MILLI * 50);
                let threads = std::fs::read_dir("/proc/self/task").unwrap().count();
                drop(wake);
                servers.into_iter().for_each(|s| s.join().unwrap());
                client.join().unwrap();
                (threads, answered.load(SeqCst))
            });
            assert_eq!(answered, COUNT);
            // Those of the tests that run beside this one, too.
            assert!(threads < 500, "{threads} threads");
        }
    }
}

#[test]
fn std_s_sockets_come_and_go() {
    run(2, || {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let listener = TcpListener::from_std(listener).unwrap();
        let stream = TcpStream::from_std(std::net::TcpStream::connect(address).unwrap()).unwrap();
        let (theirs, _) = listener.accept().unwrap();
        let fd = theirs.as_raw_fd();
        let back = theirs.into_std();
        assert_eq!(back.as_raw_fd(), fd);
        back.set_nonblocking(false).unwrap();
        (&back).write_all(b"x").unwrap();
        let copy = stream.try_clone().unwrap();
        (&copy).read_exact(&mut [0]).unwrap();
        stream.set_nodelay(true).unwrap();
        assert!(copy.nodelay().unwrap() && copy.take_error().unwrap().is_none());
        drop(listener.into_std());
    });
}

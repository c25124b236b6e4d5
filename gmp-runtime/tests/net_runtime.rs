//! Sockets and the rest: threads, several runtimes, their ends, the limits of the process.

#![allow(clippy::unwrap_used)] // an error where none may be is a failed test

mod common;

use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use common::net::{connected, echo_server};
use common::{PROCS, child, child_case, processor_ticks, run, succeed};
use gmp_runtime::net::{TcpListener, TcpStream, UdpSocket};
use gmp_runtime::{channel, go, sleep, yield_now};

const MILLI: Duration = Duration::from_millis(1);
const FAR: Duration = Duration::from_secs(100_000);

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

/// A thread looks at the kernel again after a read that emptied the socket.
#[test]
fn a_thread_reads_again_and_again() {
    run(1, || {
        let (mut ours, mut theirs) = connected();
        let reader = thread::spawn(move || {
            let mut buffer = [0; 8];
            (0..3)
                .map(|_| {
                    let n = theirs.read(&mut buffer).unwrap();
                    theirs.write_all(b".").unwrap();
                    n
                })
                .collect::<Vec<_>>()
        });
        for _ in 0..3 {
            ours.write_all(b"few").unwrap();
            ours.read_exact(&mut [0]).unwrap();
        }
        assert_eq!(reader.join().unwrap(), [3, 3, 3]);
    });
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

/// The only P is a goroutine's that never calls the runtime: the monitor looks at the network.
#[test]
fn the_monitor_looks_at_the_network_when_nobody_else_does() {
    run(1, || {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (begin, came) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicBool::new(false)),
        );
        let (begun, comes) = (begin.clone(), came.clone());
        let peer = thread::spawn(move || {
            while !begun.load(SeqCst) {
                thread::sleep(MILLI);
            }
            std::net::TcpStream::connect(address).map(drop)
        });
        let accepts = go(move || {
            listener.accept().unwrap();
            comes.store(true, SeqCst);
        });
        yield_now();
        begin.store(true, SeqCst);
        let spinning = Instant::now();
        while !came.load(SeqCst) {
            let waited = spinning.elapsed();
            assert!(
                waited < Duration::from_secs(20),
                "nobody has seen the connection"
            );
        }
        accepts.join().unwrap();
        peer.join().unwrap().unwrap();
    });
}

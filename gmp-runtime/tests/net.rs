//! Sockets: the bytes that goroutines send and receive through real ones on the local machine.

#![allow(clippy::unwrap_used)] // an error where none may be is a failed test

mod common;

use std::io::{ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::net::Shutdown;
use std::os::fd::AsRawFd;
use std::time::Duration;

use common::net::{connected, echo_server, pattern};
use common::{Directory, PROCS, run};
use gmp_runtime::net::{TcpListener, TcpStream, UdpSocket, UnixDatagram, UnixListener, UnixStream};
use gmp_runtime::{go, sleep, yield_now};

const MILLI: Duration = Duration::from_millis(1);
const FAR: Duration = Duration::from_secs(100_000);

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

/// Each half is a goroutine's own: both directions are used at once, and dropping the one that writes ends only its own.
#[test]
fn halves_of_a_stream() {
    const LENGTH: usize = 1 << 20;
    for procs in PROCS {
        run(procs, || {
            let (tcp, tcp_peer) = connected();
            let (unix, unix_peer) = UnixStream::pair().unwrap();
            let (read, write) = tcp.into_split();
            let over_tcp = talk(read, write);
            let (read, write) = unix.into_split();
            let over_unix = talk(read, write);
            let (read, write) = tcp_peer.into_split();
            let peer_of_tcp = talk(read, write);
            let (read, write) = unix_peer.into_split();
            let peer_of_unix = talk(read, write);
            for bytes in [over_tcp, over_unix, peer_of_tcp, peer_of_unix] {
                assert!(bytes.join().unwrap() == pattern(3, LENGTH));
            }
        });
    }
    /// Writes and reads to the end at the same time; what was read.
    fn talk(
        mut read: impl Read + Send + 'static,
        mut write: impl Write + Send + 'static,
    ) -> gmp_runtime::JoinHandle<Vec<u8>> {
        go(move || {
            let writer = go(move || write.write_all(&pattern(3, LENGTH)).unwrap());
            let mut bytes = Vec::new();
            read.read_to_end(&mut bytes).unwrap();
            writer.join().unwrap();
            bytes
        })
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

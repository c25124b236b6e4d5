//! Signals that interrupt calls of the kernel: nobody sees `EINTR`, whatever signal it is and whatever it interrupts.

#![allow(clippy::unwrap_used)] // an error where none may be is a failed test

mod common;

use std::io::{ErrorKind, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use common::hogs::Hogs;
use common::net::{connected, echo_server, pattern};
use common::{Directory, child, child_case, run, succeed};
use gmp_runtime::net::{TcpStream, UdpSocket, UnixListener, UnixStream};
use gmp_runtime::{blocking, fs, go, sleep};

const MILLI: Duration = Duration::from_millis(1);

static SIGNALS: AtomicU64 = AtomicU64::new(0);

extern "C" fn count(_: libc::c_int) {
    SIGNALS.fetch_add(1, SeqCst);
}

/// Sends a signal to every thread of the process each millisecond, after which the kernel makes no call again.
struct Storm {
    stop: Arc<AtomicBool>,
    thread: thread::JoinHandle<()>,
}

impl Storm {
    fn begin() -> Storm {
        // SAFETY: the handler only adds to a number, and the record is complete: no flag says SA_RESTART.
        unsafe {
            let mut action = std::mem::zeroed::<libc::sigaction>();
            action.sa_sigaction = count as extern "C" fn(libc::c_int) as usize;
            let old = std::ptr::null_mut();
            assert_eq!(libc::sigaction(libc::SIGUSR1, &action, old), 0);
        }
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            while !stopped.load(SeqCst) {
                for task in std::fs::read_dir("/proc/self/task").unwrap() {
                    let name = task.unwrap().file_name().into_string().unwrap();
                    let thread: libc::pid_t = name.parse().unwrap();
                    // SAFETY: numbers only; one that has ended meanwhile is an error.
                    unsafe {
                        libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, libc::SIGUSR1)
                    };
                }
                thread::sleep(MILLI);
            }
        });
        Storm { stop, thread }
    }

    fn end(self) {
        self.stop.store(true, SeqCst);
        self.thread.join().unwrap();
    }
}

fn sum(bytes: &[u8]) -> u64 {
    bytes.iter().map(|&byte| u64::from(byte)).sum()
}

/// Streams with more in flight than the kernel keeps, by goroutines and by a plain thread.
fn streams() -> u64 {
    const LENGTH: usize = 1 << 20;
    let (listener, server) = echo_server();
    let address = listener.local_addr().unwrap();
    let clients: Vec<_> = (0..4)
        .map(|client| {
            go(move || {
                let stream = Arc::new(TcpStream::connect(address).unwrap());
                let writes = Arc::clone(&stream);
                let writer = go(move || (&*writes).write_all(&pattern(client, LENGTH)).unwrap());
                let mut back = vec![0; LENGTH];
                (&*stream).read_exact(&mut back).unwrap();
                writer.join().unwrap();
                assert!(back == pattern(client, LENGTH));
                sum(&back)
            })
        })
        .collect();
    let sums: u64 = clients.into_iter().map(|one| one.join().unwrap()).sum();
    listener.close();
    assert_eq!(server.join().unwrap(), 4);
    let (mut ours, mut theirs) = connected();
    let reader = thread::spawn(move || {
        let mut bytes = Vec::new();
        theirs.read_to_end(&mut bytes).unwrap();
        sum(&bytes)
    });
    for byte in 0..20 {
        sleep(MILLI);
        ours.write_all(&[byte]).unwrap();
    }
    drop(ours);
    sums + blocking(|| reader.join().unwrap())
}

/// Datagrams there and back; a read that nobody answers.
fn datagrams() -> u64 {
    let [one, other] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
    one.connect(other.local_addr().unwrap()).unwrap();
    other.connect(one.local_addr().unwrap()).unwrap();
    let answers = go(move || {
        let mut byte = [0];
        while other.recv(&mut byte).unwrap() == 1 && byte[0] < 100 {
            sleep(Duration::from_micros(300));
            other.send(&[byte[0] + 1]).unwrap();
        }
    });
    let mut got = [0];
    let mut all = 0;
    for number in 0..100 {
        one.send(&[number]).unwrap();
        one.recv(&mut got).unwrap();
        all += u64::from(got[0]);
    }
    one.send(&[100]).unwrap();
    answers.join().unwrap();
    one.set_read_timeout(Some(20 * MILLI)).unwrap();
    let late = one.recv(&mut got).unwrap_err();
    assert!(
        [ErrorKind::TimedOut, ErrorKind::ConnectionRefused].contains(&late.kind()),
        "{late}"
    );
    all
}

/// Sockets with paths, to which connecting blocks a thread.
fn paths(directory: &Directory) -> u64 {
    let path = directory.file("socket");
    let listener = UnixListener::bind(&path).unwrap();
    let server = go(move || {
        let mut all = 0;
        for _ in 0..30 {
            let (mut stream, _) = listener.accept().unwrap();
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            stream.write_all(&byte).unwrap();
            all += u64::from(byte[0]);
        }
        all
    });
    for number in 0..30 {
        let mut stream = UnixStream::connect(&path).unwrap();
        sleep(MILLI);
        stream.write_all(&[number]).unwrap();
        stream.read_exact(&mut [0]).unwrap();
    }
    server.join().unwrap()
}

/// A pipe with a name: opening it waits for the other side, and writing more than it holds for the reader.
fn pipe(directory: &Directory) -> u64 {
    let path = directory.file("pipe");
    let name = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
    // SAFETY: the name is a string that ends in zero.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    let read_from = path.clone();
    let reader = go(move || {
        let mut file = fs::File::open(read_from).unwrap();
        let mut all = 0;
        let mut bytes = vec![0; 30_000];
        loop {
            match file.read(&mut bytes).unwrap() {
                0 => break all,
                length => all += sum(&bytes[..length]),
            }
            sleep(2 * MILLI);
        }
    });
    sleep(20 * MILLI);
    let mut file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all(&pattern(7, 300_000)).unwrap();
    drop(file);
    let regular = directory.file("file");
    fs::write(&regular, pattern(8, 100_000)).unwrap();
    fs::File::open(&regular).unwrap().sync_all().unwrap();
    reader.join().unwrap() + sum(&fs::read(&regular).unwrap())
}

/// Sleeps, of goroutines and of a thread in a call.
fn sleeps() -> u64 {
    let sleepers: Vec<_> = (1..=10_u32)
        .map(|number| {
            go(move || {
                let begun = Instant::now();
                sleep(number * 3 * MILLI);
                blocking(|| thread::sleep(5 * MILLI));
                assert!(begun.elapsed() >= (number * 3 + 5) * MILLI, "woken early");
                u64::from(number)
            })
        })
        .collect();
    sleepers.into_iter().map(|one| one.join().unwrap()).sum()
}

/// All of it at once.
fn work(directory: &Arc<Directory>) -> u64 {
    let [for_paths, for_pipe] = [(); 2].map(|()| Arc::clone(directory));
    let parts = [
        go(streams),
        go(datagrams),
        go(move || paths(&for_paths)),
        go(move || pipe(&for_pipe)),
        go(sleeps),
    ];
    parts
        .into_iter()
        .enumerate()
        .map(|(part, one)| (part as u64 + 1) * one.join().unwrap())
        .sum()
}

/// The same result comes out undisturbed, under a storm of signals, and beside goroutines that are frozen and
/// preempted by signals all the while (go#38033).
#[test]
fn the_result_is_the_same_whatever_interrupts() {
    const NAME: &str = "the_result_is_the_same_whatever_interrupts";
    if let Some(case) = child_case() {
        let storm = case.contains("storm").then(Storm::begin);
        for procs in [1, 2] {
            let directory = Arc::new(Directory::new(&format!("interruptions-{procs}")));
            let result = run(procs, || {
                let hogs = Hogs::new(3);
                let handles = case.contains("hogs").then(|| {
                    hogs.start(|_, _| {
                        std::hint::black_box((0..1000_u64).sum::<u64>());
                    })
                });
                let result = work(&directory);
                hogs.end(handles.unwrap_or_default());
                result
            });
            println!("\nresult {result}");
        }
        if let Some(storm) = storm {
            storm.end();
            assert!(SIGNALS.load(SeqCst) > 100, "{SIGNALS:?}");
        }
        return;
    }
    let mut results = Vec::new();
    for (case, debug) in [
        ("nothing", "asyncpreemptoff=1"),
        ("storm", "asyncpreemptoff=1"),
        ("hogs", ""),
        ("storm and hogs", ""),
    ] {
        let output = succeed(child(NAME, case).env("GMPDEBUG", debug));
        let text = String::from_utf8(output.stdout).unwrap();
        let lines = text.lines().filter_map(|line| line.strip_prefix("result "));
        results.extend(lines.map(str::to_owned));
    }
    assert_eq!(results.len(), 8, "{results:?}");
    assert!(
        results.iter().all(|result| *result == results[0]),
        "{results:?}"
    );
}

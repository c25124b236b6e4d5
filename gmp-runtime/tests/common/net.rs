//! What the tests of sockets share.

use std::io::{Read, Write};
use std::sync::Arc;

use gmp_runtime::net::{TcpListener, TcpStream};
use gmp_runtime::{JoinHandle, go};

/// Two ends of a connection.
pub(crate) fn connected() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (theirs, peer) = listener.accept().unwrap();
    assert_eq!(peer, ours.local_addr().unwrap());
    assert_eq!(theirs.local_addr().unwrap(), ours.peer_addr().unwrap());
    (ours, theirs)
}

/// Answers everything on every connection that comes, until the listener is closed.
pub(crate) fn echo_server() -> (Arc<TcpListener>, JoinHandle<usize>) {
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
pub(crate) fn pattern(connection: usize, len: usize) -> Vec<u8> {
    let byte = |at: usize| (at.wrapping_mul(31) ^ connection.wrapping_mul(131) ^ (at >> 8)) as u8;
    (0..len).map(byte).collect()
}

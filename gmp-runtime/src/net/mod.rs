//! Sockets for goroutines: TCP, UDP and Unix sockets with the methods of [`std::net`].
//!
//! A goroutine that would block parks (reason `IO wait`) and costs no thread. All sockets are in the kernel's
//! poll, edge-triggered, from the first time that somebody waits for them; whoever has nothing to run, and the
//! monitor, take events out of it.
//!
//! | | here | in std |
//! |---|---|---|
//! | a call that would block | parks the goroutine | blocks the thread |
//! | a timeout that passes | `TimedOut` | `WouldBlock` |
//! | a signal in the middle | is not seen | `Interrupted` |
//! | deadlines | also as moments, also for calls that wait already | timeouts only |
//! | ending calls that wait | `close` | `shutdown`, for some |
//! | `set_nonblocking` | there is none | |
//!
//! # Plain threads
//!
//! Every socket can be made and used on a thread that runs no goroutine. There a call blocks the thread, in
//! `poll(2)`. A goroutine and a thread may use the same socket at the same time.
//!
//! # Several runtimes
//!
//! A socket is watched by the runtime whose goroutine waited for it last. While goroutines of one runtime wait
//! for it, those of another cannot: they get `InvalidInput`.
//!
//! # Running out of descriptors
//!
//! `accept`, `connect` and `bind` fail then, as in std, and nothing else happens. The loops that
//! [`TcpListener::incoming`] and [`UnixListener::incoming`] give make pauses: see [`Incoming`].

pub(crate) mod desc;
mod listen;
mod methods;
mod resolve;
mod socket;
mod split;
mod tcp;
mod udp;
mod unix;

pub use listen::{Accept, Incoming};
pub use split::{Halves, ReadHalf, WriteHalf};
pub use tcp::{TcpListener, TcpStream};
pub use udp::UdpSocket;
pub use unix::{UnixDatagram, UnixListener, UnixStream};

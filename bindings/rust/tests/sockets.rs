// SPDX-License-Identifier: MIT OR Apache-2.0
//! Options of sockets, and sockets and descriptors that come from elsewhere and go back.

mod common;

use common::{on_each_driver, pattern, poll_once, run, TempDir};
use quoit::net::{
    inherited, Keepalive, Listener, Passed, Stream, TcpListener, TcpStream, UdpSocket, UnixDatagram,
    UnixListener, UnixStream,
};
use quoit::{rt, symbol, BindOptions, Call, Error, ListenOptions, Result};
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net as unix;
use std::process::{Command, Stdio};
use std::time::Duration;

async fn tcp_pair() -> Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let near = TcpStream::connect(listener.local_addr()?).await?;
    Ok((near, listener.accept().await?))
}

async fn unix_pair() -> Result<(UnixStream, UnixStream)> {
    let (near, far) = unix::UnixStream::pair()?;
    Ok((UnixStream::from_std(near).await?, UnixStream::from_std(far).await?))
}

#[test]
fn options_of_streams_and_listeners() {
    on_each_driver(|runtime| {
        run(runtime.worker(), async {
            let options = ListenOptions::new().reuse_port().freebind().defer_accept();
            let listener = TcpListener::bind_with("127.0.0.1:0", options).await?;
            assert!(listener.reuse_port()? && listener.freebind()? && listener.nodelay()?);
            assert!(listener.defer_accept()? >= Duration::from_secs(1));
            listener.set_defer_accept(Duration::ZERO).await?;
            assert_eq!(listener.defer_accept()?, Duration::ZERO);
            listener.set_recv_buffer(100_000).await?;
            assert!(listener.recv_buffer()? >= 100_000);
            assert_eq!(listener.v6_only().expect_err("it is of IPv4").name(), "EOPNOTSUPP");
            let v6 = TcpListener::bind_with("[::1]:0", ListenOptions::new().v6_only()).await?;
            assert!(v6.v6_only()? && !v6.reuse_port()?);

            let near = TcpStream::connect(listener.local_addr()?).await?;
            let far = listener.accept().await?;
            assert!(far.nodelay()? && far.recv_buffer()? >= 100_000, "a stream begins as its listener is");
            near.set_nodelay(false).await?;
            assert!(!near.nodelay()?);
            assert_eq!(near.keepalive()?, None);
            let (idle, interval) = (Duration::from_secs(7), Duration::from_secs(3));
            near.set_keepalive(Some(Keepalive { idle, interval, count: 4 })).await?;
            assert_eq!(near.keepalive()?, Some(Keepalive { idle, interval, count: 4 }));
            let rounded = Keepalive { idle: Duration::from_millis(1500), interval, count: 4 };
            near.set_keepalive(Some(rounded)).await?;
            assert_eq!(near.keepalive()?.map(|keepalive| keepalive.idle), Some(Duration::from_secs(2)));
            let wrong = near.set_keepalive(Some(Keepalive { idle, interval, count: 0 })).await;
            assert_eq!(wrong.expect_err("no probe at all").name(), "QUOIT_E_FIELD");
            near.set_keepalive(None).await?;
            assert_eq!(near.keepalive()?, None);
            near.set_tos(0x10).await?;
            near.set_user_timeout(Duration::from_millis(2500)).await?;
            near.set_send_buffer(50_000).await?;
            near.set_priority(3).await?;
            assert_eq!((near.tos()?, near.user_timeout()?), (0x10, Duration::from_millis(2500)));
            assert!(near.send_buffer()? >= 50_000 && near.priority()? == 3 && near.mark()? == 0);
            near.set_busy_poll(Duration::ZERO).await?;
            assert_eq!(near.busy_poll()?, Duration::ZERO);
            near.set_incoming_cpu(Some(0)).await?;
            assert!(near.incoming_cpu().is_ok());
            let pipe = unix_pair().await?.0;
            pipe.set_send_buffer(30_000).await?;
            assert!(pipe.send_buffer()? >= 30_000 && pipe.recv_buffer()? > 0);
            Ok(())
        });
    });
}

#[test]
fn options_of_datagram_sockets() {
    on_each_driver(|runtime| {
        run(runtime.worker(), async {
            let options = BindOptions::new().reuse_port().v6_only();
            let socket = UdpSocket::bind_with("[::1]:0", options).await?;
            assert!(socket.reuse_port()? && socket.v6_only()? && !socket.freebind()?);
            socket.set_recv_buffer(60_000).await?;
            socket.set_tos(0x20).await?;
            assert!(socket.recv_buffer()? >= 60_000 && socket.tos()? == 0x20);
            socket.set_incoming_cpu(Some(0)).await?;
            assert_eq!(socket.incoming_cpu()?, Some(0));
            let local = UnixDatagram::bind(format!("\0quoit-rust-options-{}", std::process::id())).await?;
            local.set_send_buffer(40_000).await?;
            assert!(local.send_buffer()? >= 40_000);
            Ok(())
        });
    });
}

#[test]
fn linger_makes_an_abort_a_reset() {
    on_each_driver(|runtime| {
        run(runtime.worker(), async {
            for reset in [false, true] {
                let (near, far) = tcp_pair().await?;
                assert_eq!(near.linger()?, None);
                if reset {
                    near.set_linger(Some(Duration::ZERO)).await?;
                    assert_eq!(near.linger()?, Some(Duration::ZERO));
                }
                let wrong = near.set_linger(Some(Duration::from_secs(1))).await;
                assert_eq!(wrong.expect_err("a close has its own patience").name(), "QUOIT_E_FIELD");
                near.into_inner().abort().await?;
                match far.recv().await {
                    Ok(end) => assert!(end.is_none() && !reset),
                    Err(error) => assert!(error.name() == "ECONNRESET" && reset, "{error}"),
                }
            }
            Ok(())
        });
    });
}

#[test]
fn streams_come_and_go_with_every_byte() {
    on_each_driver(|runtime| {
        run(runtime.worker(), async {
            let (near, mut far) = tcp_pair().await.map(|(near, far)| (near, Some(far)))?;
            let bytes = pattern(5, 100_000);
            let mut at = 0;
            for piece in bytes.chunks(10_000) {
                near.write_all(piece.to_vec()).await?;
                let stream = far.take().expect("it came back");
                let mut got = vec![0; piece.len()];
                let half = piece.len() / 2;
                let mut first = Vec::new();
                stream.read_until_len(&mut first, half).await?;
                assert!(first[..] == bytes[at..at + half], "the bytes changed");
                // A receive is under way, or has brought what nobody took: then it stays.
                let plain = match stream.into_std().await {
                    Ok(plain) => plain,
                    Err(not) => {
                        assert_eq!(not.error, Error::BUSY);
                        let mut rest = Vec::new();
                        not.socket.read_until_len(&mut rest, piece.len() - half).await?;
                        assert!(rest[..] == bytes[at + half..at + piece.len()], "the bytes changed");
                        assert!(poll_once(not.socket.recv()).await.is_none(), "a receive is under way");
                        at += piece.len();
                        far = Some(TcpStream::from_std(not.socket.into_std().await?).await?);
                        continue;
                    }
                };
                let got = rt::unblock(move || (&plain).read_exact(&mut got[half..]).map(|()| (got, plain)));
                let (got, plain) = got.await??;
                assert!(got[half..] == bytes[at + half..at + piece.len()], "the bytes changed");
                at += piece.len();
                far = Some(TcpStream::from_std(plain).await?);
            }
            assert_eq!(at, bytes.len());
            Ok(())
        });
    });
}

#[test]
fn what_is_under_way_holds_a_stream_back() {
    on_each_driver(|runtime| {
        run(runtime.worker(), async {
            let (near, far) = tcp_pair().await?;
            drop(near.send("never awaited"));
            let not = near.into_std().await.expect_err("a dropped send is not settled");
            assert_eq!(not.error, Error::BUSY);
            let dropped = not.socket.settle().await?;
            let plain = not.socket.into_std().await?;
            // Blocking and close-on-exec, and nobody else's.
            (&plain).write_all(&b"never awaited"[dropped[0].sent..])?;
            drop(plain);
            let mut all = Vec::new();
            while let Some(bytes) = far.recv().await? {
                all.extend_from_slice(&bytes);
            }
            assert_eq!(all, b"never awaited");
            Ok(())
        });
    });
}

#[test]
fn listeners_and_datagram_sockets_come_and_go() {
    on_each_driver(|runtime| {
        run(runtime.worker(), async {
            let plain = std::net::TcpListener::bind("127.0.0.1:0")?;
            let addr = plain.local_addr()?;
            let listener = TcpListener::from_std(plain).await?;
            assert_eq!((listener.local_addr()?, listener.port()), (addr, addr.port()));
            assert!(poll_once(listener.accept()).await.is_none());
            let plain = listener.into_std().await?;
            // What connects meanwhile waits in the backlog.
            let client = std::net::TcpStream::connect(addr)?;
            let listener = TcpListener::from_std(plain).await?;
            let stream = listener.accept().await?;
            assert_eq!(stream.peer_addr()?, client.local_addr()?);

            let socket = UdpSocket::from_std(std::net::UdpSocket::bind("127.0.0.1:0")?).await?;
            let other = UdpSocket::connect(socket.local_addr()?).await?;
            assert!(poll_once(socket.recv()).await.is_none());
            let plain = socket.into_std().await?;
            other.send(b"meanwhile").await?;
            let socket = UdpSocket::from_std(plain).await?;
            assert_eq!(&socket.recv().await?[..], b"meanwhile");

            let (near, far) = unix::UnixDatagram::pair()?;
            let near = UnixDatagram::from_std(near).await?;
            near.send(b"a pair").await?;
            let mut bytes = [0; 16];
            assert_eq!(far.recv(&mut bytes)?, 6);
            let near = near.into_std().await?;
            far.send(b"back")?;
            assert_eq!(near.recv(&mut bytes)?, 4);

            let dir = TempDir::new("adopt");
            let listener = UnixListener::from_std(unix::UnixListener::bind(dir.0.join("socket"))?).await?;
            let client = UnixStream::connect(dir.0.join("socket")).await?;
            client.write_all("x").await?;
            assert_eq!(listener.accept().await?.recv().await?.as_deref(), Some(&b"x"[..]));
            Ok(())
        });
    });
}

/// A connection of messages is a datagram socket that ends.
#[test]
fn a_connection_of_messages_ends() {
    on_each_driver(|runtime| {
        run(runtime.worker(), async {
            let pair: &'static mut [i32; 2] = Box::leak(Box::new([0; 2]));
            let (unix, seqpacket) = (1i32, 5i32);
            let function = symbol(None, "socketpair")?;
            // SAFETY: int socketpair(int, int, int, int *); the memory is there for good.
            let call = unsafe { Call::new::<i32>(function) }.arg(unix).arg(seqpacket).arg(0i32);
            assert_eq!(rt::native::<i32>(call.arg(pair.as_mut_ptr())).await?, 0);
            // SAFETY: the call has opened both, and nobody else knows them.
            let [near, far] = pair.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
            let near = UnixDatagram::from_std(near.into()).await?;
            let far = UnixDatagram::from_std(far.into()).await?;
            near.send(b"one message").await?;
            near.send(b"and another").await?;
            drop(near);
            assert_eq!(&far.recv().await?[..], b"one message");
            assert_eq!(&far.recv().await?[..], b"and another");
            for _ in 0..3 {
                assert_eq!(far.recv().await.expect_err("the end stays").name(), "ENOTCONN");
            }
            Ok(())
        });
    });
}

#[test]
fn what_is_something_else_is_refused_and_closed() {
    on_each_driver(|runtime| {
        run(runtime.worker(), async {
            let (near, far) = unix::UnixStream::pair()?;
            let error = TcpStream::from_std(OwnedFd::from(near).into()).await.expect_err("it is no TCP");
            assert_eq!(error, Error::KIND);
            assert_eq!((&far).read(&mut [0])?, 0, "it was closed");
            let (near, far) = unix::UnixStream::pair()?;
            assert_eq!(Listener::adopt(near).await.expect_err("it does not listen"), Error::KIND);
            assert_eq!((&far).read(&mut [0])?, 0, "it was closed");
            let file = File::open("/proc/self/stat")?;
            assert_eq!(Stream::adopt(file).await.expect_err("it is a file"), Error::KIND);
            // A dropped adoption closes what it had made.
            let (near, far) = unix::UnixStream::pair()?;
            assert!(poll_once(Stream::adopt(near)).await.is_none());
            while !matches!(ready(&far), Some(0)) {
                rt::nop().await?;
            }
            // And a dropped detachment.
            let (near, far) = tcp_pair().await?;
            assert!(poll_once(near.into_std()).await.is_none());
            assert!(far.recv().await?.is_none(), "it was closed");
            Ok(())
        });
    });
}

/// Bytes that could be read without waiting.
fn ready(stream: &unix::UnixStream) -> Option<usize> {
    stream.set_nonblocking(true).expect("an option can be set");
    match (&*stream).read(&mut [0]) {
        Ok(count) => Some(count),
        Err(error) if error.kind() == ErrorKind::WouldBlock => None,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn descriptors_travel_with_their_bytes() {
    on_each_driver(|runtime| {
        let dir = TempDir::new("fds");
        run(runtime.worker(), async {
            let (near, far) = unix_pair().await?;
            for number in 0..20u8 {
                let path = dir.0.join(number.to_string());
                std::fs::write(&path, [number; 3])?;
                let file = File::open(&path)?;
                near.write_all(vec![100]).await?;
                // Borrowed for the call only.
                let send = near.send_fd(&[number, number], file.as_fd());
                drop(file);
                assert_eq!(send.await?, 2);
            }
            near.shutdown(Shutdown::Write).await?;
            let (mut bytes, mut fds) = (Vec::new(), Vec::new());
            while let Some(passed) = next(&far).await? {
                assert!(!passed.truncated);
                let peer = passed.peer.expect("the kernel knows who made it");
                assert_eq!(peer.pid as u32, std::process::id());
                bytes.extend(passed.bytes);
                fds.extend(passed.fds);
            }
            let expected: Vec<u8> = (0..20).flat_map(|number| [100, number, number]).collect();
            assert_eq!((bytes, fds.len()), (expected, 20));
            for (number, fd) in fds.into_iter().enumerate() {
                let mut text = Vec::new();
                File::from(fd).read_to_end(&mut text)?;
                assert_eq!(text, [number as u8; 3]);
            }
            assert!(far.recv_with_fds().await?.is_none() && far.recv().await?.is_none(), "the end stays");
            Ok(())
        });
    });
}

/// Each receive is polled, dropped and asked for again.
async fn next(stream: &UnixStream) -> Result<Option<Passed>> {
    loop {
        if let Some(passed) = poll_once(stream.recv_with_fds()).await {
            return passed;
        }
        rt::nop().await?;
    }
}

#[test]
fn descriptors_and_plain_receives_do_not_mix_unawares() {
    on_each_driver(|runtime| {
        run(runtime.worker(), async {
            let (near, far) = unix_pair().await?;
            assert!(poll_once(far.recv()).await.is_none());
            let received = far.recv_with_fds();
            near.send_fd(b"x", std::io::stderr().as_fd()).await?;
            let passed = received.await?.expect("bytes");
            assert_eq!(passed.bytes, b"x");
            assert!(poll_once(far.recv_with_fds()).await.is_none());
            assert_eq!(far.recv().await.expect_err("descriptors are received"), Error::BUSY);
            near.write_all("y").await?;
            assert_eq!(far.recv_with_fds().await?.expect("bytes").bytes, b"y");
            near.write_all("z").await?;
            assert_eq!(far.recv().await?.as_deref(), Some(&b"z"[..]), "it can be either, in turn");
            let (tcp, _far) = tcp_pair().await?;
            let fd: OwnedFd = tcp.into_std().await?.into();
            let none = near.send_fd(b"", fd.as_fd()).await.expect_err("it goes with bytes");
            assert_eq!(none.name(), "QUOIT_E_FIELD");
            Ok(())
        });
    });
}

/// This program again, as a service manager would start it: with a listener as descriptor 3.
#[test]
fn inherited_listeners_serve() {
    const CHILD: &str = "QUOIT_TEST_INHERITS";
    if std::env::var_os(CHILD).is_some() {
        return serve_inherited();
    }
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a listener");
    let addr = listener.local_addr().expect("an address");
    let script = r#"LISTEN_PID=$$ LISTEN_FDS=2 LISTEN_FDNAMES=web:spare exec "$0" "$@" 3<&0 4<&0"#;
    let mut child = Command::new("/bin/sh")
        .args(["-c", script])
        .arg(std::env::current_exe().expect("a path"))
        .args(["--exact", "inherited_listeners_serve", "--test-threads", "1"])
        .env(CHILD, "1")
        .stdin(Stdio::from(OwnedFd::from(listener)))
        .stdout(Stdio::piped())
        .spawn()
        .expect("a shell");
    let mut stream = std::net::TcpStream::connect(addr).expect("the backlog takes it");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("the child answers");
    drop(stream);
    let mut output = String::new();
    child.stdout.take().expect("it is piped").read_to_string(&mut output).expect("text");
    assert!(child.wait().expect("it ends").success(), "{output}");
    assert_eq!(text, "web");
}

fn serve_inherited() {
    let found = inherited().expect("it was passed");
    assert_eq!(found.iter().map(|one| one.name()).collect::<Vec<_>>(), ["web", "spare"]);
    assert!(inherited().expect("no error").is_empty(), "they are given once");
    let first = found.into_iter().next().expect("the first");
    run(quoit::Runtime::new().expect("a runtime").worker(), async {
        let fd = OwnedFd::from(first);
        assert_eq!(fd.as_raw_fd(), 3);
        let stream = Listener::adopt(fd).await?.accept().await?;
        stream.write_all("web").await?;
        stream.close(None).await?;
        Ok(())
    });
}

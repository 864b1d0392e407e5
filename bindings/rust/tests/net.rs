// SPDX-License-Identifier: MIT OR Apache-2.0
//! Listeners and streams of the executor.

mod common;

use common::{check_echo_on, on_each_driver, pattern, run, small_pool, Limit, TempDir};
use quoit::net::{Listener, Stream};
use quoit::rt;
use quoit::{time, Addr, Error, ListenOptions, Result, Runtime};
use std::cell::Cell;
use std::net::Shutdown;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Runs a test's future, which must end within a minute.
/// Serves echoes on a port of the system's choice.
async fn serve_echo(addr: &str) -> Result<Addr> {
    let listener = Listener::bind(addr).await?;
    let addr = listener.local_addr()?;
    rt::spawn(async move {
        while let Ok(stream) = listener.accept().await {
            rt::spawn(async move {
                while let Some(bytes) = stream.recv().await? {
                    stream.send(bytes).await.0?;
                }
                Result::Ok(())
            });
        }
    });
    Ok(addr)
}

/// Receives exactly so many bytes.
async fn receive(stream: &Stream, count: usize) -> Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(count);
    while bytes.len() < count {
        let lease = stream.recv().await?.expect("the stream goes on");
        bytes.extend_from_slice(&lease);
    }
    assert_eq!(bytes.len(), count, "more came than was sent");
    Ok(bytes)
}

/// Sends bytes, in two halves, and receives them back.
async fn check_echo(addr: Addr, bytes: Vec<u8>) -> Result<()> {
    let stream = Rc::new(Stream::connect(addr).await?);
    let (back, expected) = (Rc::clone(&stream), bytes.clone());
    let receiving =
        rt::spawn(async move { receive(&back, expected.len()).await.map(|back| back == expected) });
    let half = bytes.len() / 2;
    let (sent, first) = stream.send(bytes[..half].to_vec()).await;
    assert_eq!((sent?, first.len()), (half, half), "the vector comes back whole");
    assert_eq!(stream.send(bytes[half..].to_vec()).await.0?, bytes.len() - half);
    assert!(receiving.await??, "an echo of {} bytes differs", bytes.len());
    Ok(())
}

async fn echoes(addr: &str, clients: u64) -> Result<()> {
    let addr = serve_echo(addr).await?;
    let checks: Vec<_> = (0..clients)
        .map(|client| {
            rt::spawn(async move {
                for size in [1, 2, 100, 4096, 70_000, 1 << 20] {
                    check_echo(addr, pattern(client + size as u64, size)).await?;
                }
                Result::Ok(())
            })
        })
        .collect();
    for check in checks {
        check.await??;
    }
    Ok(())
}

#[test]
fn echoes_over_tcp() {
    on_each_driver(|runtime| run(runtime.worker(), echoes("127.0.0.1:0", 16)));
}

#[test]
fn echoes_over_ipv6() {
    on_each_driver(|runtime| run(runtime.worker(), echoes("[::1]:0", 4)));
}

#[test]
fn echoes_over_unix_sockets() {
    let folder = TempDir::new("unix");
    let path = format!("unix:{}", folder.0.join("echo").display());
    on_each_driver(|runtime| {
        std::fs::remove_file(folder.0.join("echo")).ok();
        run(runtime.worker(), echoes(&path, 4))
    });
}

#[test]
fn echoes_with_sixteen_buffers_and_one_event() {
    on_each_driver(|runtime| run(small_pool(runtime).events_max(1), echoes("127.0.0.1:0", 8)));
}

#[test]
fn transfers_every_byte_both_ways() {
    on_each_driver(|runtime| {
        run(runtime.worker(), async {
            const SIZE: usize = 32 << 20;
            let addr = serve_echo("127.0.0.1:0").await?;
            check_echo(addr, pattern(5, SIZE)).await?;
            check_echo(addr, pattern(6, SIZE + 1)).await
        })
    });
}

/// A connected pair.
async fn pair() -> Result<(Stream, Stream)> {
    let listener = Listener::bind("127.0.0.1:0").await?;
    let near = Stream::connect(listener.local_addr()?).await?;
    let far = listener.accept().await?;
    assert_eq!(near.peer_addr()?, far.local_addr()?);
    assert_eq!(near.local_addr()?, far.peer_addr()?);
    Ok((near, far))
}

#[test]
fn sends_every_kind_of_memory() {
    on_each_driver(|runtime| {
        run(runtime.worker(), async {
            let (near, far) = pair().await?;
            let shared: Arc<[u8]> = Arc::from(&b"shared "[..]);
            near.send("text ").await.0?;
            near.send(&b"bytes "[..]).await.0?;
            near.send(Arc::clone(&shared)).await.0?;
            let (sent, text) = near.send(String::from("string ")).await;
            assert_eq!((sent?, text.as_str()), (7, "string "));
            let pieces = vec![b"many ".to_vec(), Vec::new(), b"pieces".to_vec()];
            let (sent, pieces) = near.send_many(pieces).await;
            assert_eq!((sent?, pieces.len()), (11, 3));
            let expected = b"text bytes shared string many pieces";
            assert_eq!(receive(&far, expected.len()).await?, expected);
            assert_eq!(Arc::strong_count(&shared), 1, "the operation let go of it");
            Ok(())
        })
    });
}

#[test]
fn sends_part_of_a_lease() {
    on_each_driver(|runtime| {
        run(runtime.worker(), async {
            let (near, far) = pair().await?;
            near.send("0123456789").await.0?;
            let mut lease = far.recv().await?.expect("bytes");
            lease.advance(2);
            lease.truncate(5);
            assert_eq!(&lease[..], b"23456");
            far.send(lease).await.0?;
            assert_eq!(receive(&near, 5).await?, b"23456");
            Ok(())
        })
    });
}

#[test]
fn leases_outlive_the_turn_that_brought_them() {
    on_each_driver(|runtime| {
        // Few buffers, and a low cap: some leases are kept, the rest wait in the kernel until these are dropped.
        run(small_pool(runtime).kept_stream_max(8 * 1024), async {
            let (near, far) = pair().await?;
            let sent = pattern(3, 200_000);
            let bytes = sent.clone();
            let sending = rt::spawn(async move { near.send(bytes).await.0 });
            let (mut held, mut count) = (Vec::new(), 0);
            // Held over many turns, until nothing more comes.
            while let Ok(lease) = time::timeout(Duration::from_millis(100), far.recv()).await {
                let lease = lease?.expect("the stream goes on");
                count += lease.len();
                held.push(lease);
                rt::nop().await?;
                if count == sent.len() {
                    break;
                }
            }
            let mut back: Vec<u8> = held.iter().flat_map(|lease| lease.iter().copied()).collect();
            drop(held);
            back.extend(receive(&far, sent.len() - back.len()).await?);
            assert!(back == sent, "leased bytes changed");
            assert_eq!(sending.await??, sent.len());
            Ok(())
        })
    });
}

#[test]
fn a_lease_may_outlive_the_executor() {
    on_each_driver(|runtime| {
        let mut executor = runtime.worker().executor().expect("an executor");
        let lease = executor
            .block_on(async {
                let (near, far) = pair().await?;
                near.send("still here").await.0?;
                far.recv().await
            })
            .expect("the executor runs")
            .expect("no error")
            .expect("bytes");
        drop(executor);
        assert_eq!(&lease[..], b"still here");
    });
}

#[test]
fn a_stream_ends_in_halves() {
    on_each_driver(|runtime| {
        run(runtime.worker(), async {
            let (near, far) = pair().await?;
            near.send("question").await.0?;
            near.shutdown(Shutdown::Write).await?;
            assert_eq!(receive(&far, 8).await?, b"question");
            assert!(far.recv().await?.is_none(), "the end is told");
            assert!(far.recv().await?.is_none(), "as often as one asks");
            far.send("answer").await.0?;
            drop(far);
            assert_eq!(receive(&near, 6).await?, b"answer");
            assert!(near.recv().await?.is_none());
            assert_eq!(near.close(None).await?, 0, "nothing was left to send");
            Ok(())
        })
    });
}

#[test]
fn what_is_queued_is_sent_before_the_close() {
    on_each_driver(|runtime| {
        run(runtime.worker(), async {
            let (near, far) = pair().await?;
            let bytes = pattern(8, 3 << 20);
            let expected = bytes.clone();
            let sending = near.send(bytes);
            let closing = rt::spawn(near.close(Some(Duration::from_secs(20))));
            assert!(receive(&far, expected.len()).await? == expected, "the bytes differ");
            assert!(far.recv().await?.is_none());
            assert_eq!(sending.await.0?, expected.len());
            drop(far);
            assert_eq!(closing.await??, 0);
            Ok(())
        })
    });
}

#[test]
fn a_reset_is_an_error() {
    on_each_driver(|runtime| {
        run(runtime.worker(), async {
            let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
            let near = Stream::connect(listener.local_addr()?).await?;
            near.send("unread").await.0?;
            rt::unblock(move || {
                // Bytes that nobody has read make a close a reset.
                let (far, _) = listener.accept()?;
                far.peek(&mut [0])?;
                std::io::Result::Ok(())
            })
            .await??;
            let end = near.recv().await;
            assert!(matches!(&end, Err(error) if error.name() == "ECONNRESET"), "the end was {end:?}");
            Ok(())
        })
    });
}

#[test]
fn nobody_listens() {
    on_each_driver(|runtime| {
        run(runtime.worker(), async {
            let listener = Listener::bind("127.0.0.1:0").await?;
            let addr = listener.local_addr()?;
            let taken = Listener::bind(addr).await.expect_err("the port is taken");
            assert_eq!(taken.name(), "EADDRINUSE");
            drop(listener);
            time::sleep(Duration::from_millis(5)).await?;
            let refused = Stream::connect(addr).await.expect_err("nobody listens");
            assert_eq!(refused.name(), "ECONNREFUSED");
            assert_eq!(Stream::connect("not an address").await.err(), Some(Error::ARGUMENT));
            Ok(())
        })
    });
}

#[test]
fn streams_that_nobody_waits_for_are_kept() {
    on_each_driver(|runtime| {
        run(runtime.worker(), async {
            let listener = Listener::bind_with("127.0.0.1:0", ListenOptions::new().backlog(64)).await?;
            let addr = listener.local_addr()?;
            // Armed, then dropped: its streams must wait.
            assert!(time::timeout(Duration::from_millis(5), listener.accept()).await.is_err());
            let mut clients = Vec::new();
            for number in 0..40u8 {
                let client = Stream::connect(addr).await?;
                client.send(vec![number]).await.0?;
                clients.push(client);
            }
            let mut numbers = Vec::new();
            for _ in 0..40 {
                let stream = listener.accept().await?;
                // Recvs that are dropped lose nothing either.
                let lease = loop {
                    if let Ok(lease) = time::timeout(Duration::ZERO, stream.recv()).await {
                        break lease?.expect("a byte");
                    }
                };
                numbers.push(lease[0]);
            }
            numbers.sort_unstable();
            numbers.dedup();
            assert_eq!(numbers.len(), 40, "a stream or a byte was lost");
            Ok(())
        })
    });
}

#[test]
fn a_client_that_sends_a_byte_at_a_time() {
    on_each_driver(|runtime| {
        let mut executor = runtime.worker().executor().expect("an executor");
        let served = executor.block_on(async {
            let addr = serve_echo("127.0.0.1:0").await?;
            rt::unblock(move || {
                let port = addr.port();
                let stream = std::net::TcpStream::connect(("127.0.0.1", port)).expect("the echo accepts");
                stream.set_nodelay(true).expect("an option can be set");
                for byte in 0..=255u8 {
                    check_echo_on(&stream, &[byte]);
                }
            })
            .await
        });
        served.expect("the executor runs").expect("the client ends well");
    });
}

#[test]
fn two_tasks_share_a_stream() {
    on_each_driver(|runtime| {
        run(runtime.worker(), async {
            let (near, far) = pair().await?;
            let far = Rc::new(far);
            let count = Rc::new(Cell::new(0));
            let readers: Vec<_> = (0..2)
                .map(|_| {
                    let (far, count) = (Rc::clone(&far), Rc::clone(&count));
                    rt::spawn(async move {
                        while let Some(bytes) = far.recv().await? {
                            count.set(count.get() + bytes.len());
                        }
                        Result::Ok(())
                    })
                })
                .collect();
            for _ in 0..100 {
                near.send(vec![1; 1000]).await.0?;
            }
            near.shutdown(Shutdown::Write).await?;
            for reader in readers {
                reader.await??;
            }
            assert_eq!(count.get(), 100_000);
            Ok(())
        })
    });
}

#[test]
fn addresses_are_read_and_written() {
    let _limit = Limit::new(10);
    for text in ["127.0.0.1:80", "[::1]:8080", "unix:/run/quoit", "unix:@abstract"] {
        assert_eq!(text.parse::<Addr>().expect("an address").to_string(), text);
    }
    let v6: std::net::SocketAddr = "[2001:db8::7]:443".parse().expect("an address");
    assert_eq!(Addr::from(v6).to_socket_addr(), Some(v6));
    assert_eq!(Addr::from(v6), "[2001:db8::7]:443".parse().expect("an address"));
    assert!("127.0.0.1".parse::<Addr>().is_err());
    assert!(Runtime::new().is_ok());
}

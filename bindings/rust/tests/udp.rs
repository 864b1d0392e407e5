// SPDX-License-Identifier: MIT OR Apache-2.0
//! UDP sockets.

mod common;

use common::{on_each_driver, pattern, poll_once, run};
use quoit::net::UdpSocket;
use quoit::{rt, spawn, BindOptions, Error, Result};

#[test]
fn datagrams_stay_whole() {
    on_each_driver(|runtime| {
        for addr in ["127.0.0.1:0", "[::1]:0"] {
            // A scratch region that holds some of them only.
            run(runtime.worker().scratch_len(4096), async {
                let (near, far) = (UdpSocket::bind(addr).await?, UdpSocket::bind(addr).await?);
                for size in [0, 1, 500, 1400, 0, 1500] {
                    let bytes = pattern(size as u64, size);
                    assert_eq!(near.send_to(&bytes, far.local_addr()?).await?, size);
                    let datagram = far.recv().await?;
                    assert!(datagram[..] == bytes[..], "{size} bytes changed");
                    assert_eq!(datagram.from(), Some(near.local_addr()?));
                    assert!(!datagram.is_truncated() && datagram.whole_len() == size);
                    // Back from where it lies.
                    assert_eq!(far.send_back(datagram).await?, size);
                    assert!(near.recv().await?[..] == bytes[..], "{size} bytes changed");
                }
                let lost = near.send_to(b"x", "unix:@never").await.expect_err("that is no address of UDP");
                assert_eq!(lost, Error::ARGUMENT);
                let long = near.send_to(&vec![0; 70_000], far.local_addr()?).await.expect_err("too long");
                assert_eq!(long.name(), "EMSGSIZE");
                Ok(())
            });
        }
    });
}

#[test]
fn long_datagrams_are_cut_or_whole_as_asked() {
    on_each_driver(|runtime| {
        run(runtime.worker(), async {
            let near = UdpSocket::bind("127.0.0.1:0").await?;
            let short = UdpSocket::bind("127.0.0.1:0").await?;
            let long = UdpSocket::bind_with("127.0.0.1:0", BindOptions::new().receive_max(65_535)).await?;
            let bytes = pattern(1, 60_000);
            near.send_to(&bytes, short.local_addr()?).await?;
            let datagram = short.recv().await?;
            assert!(datagram.is_truncated() && datagram.whole_len() == bytes.len());
            assert!(datagram.len() >= 1500 && datagram[..] == bytes[..datagram.len()]);
            for _ in 0..3 {
                near.send_to(&bytes, long.local_addr()?).await?;
                let datagram = long.recv().await?;
                assert!(!datagram.is_truncated() && datagram[..] == bytes[..], "the bytes changed");
            }
            Ok(())
        })
    });
}

#[test]
fn connected_sockets_hear_their_peer_only() {
    on_each_driver(|runtime| {
        run(runtime.worker(), async {
            let (peer, other) =
                (UdpSocket::bind("127.0.0.1:0").await?, UdpSocket::bind("127.0.0.1:0").await?);
            let socket = UdpSocket::connect(peer.local_addr()?).await?;
            assert_eq!(socket.peer_addr()?, peer.local_addr()?);
            other.send_to(b"from another", socket.local_addr()?).await?;
            peer.send_to(b"from the peer", socket.local_addr()?).await?;
            assert_eq!(&socket.recv().await?[..], b"from the peer");
            socket.send(b"back").await?;
            let datagram = peer.recv().await?;
            assert_eq!((&datagram[..], datagram.from()), (&b"back"[..], Some(socket.local_addr()?)));
            assert_eq!(other.send(b"to whom?").await.expect_err("no peer").name(), "EDESTADDRREQ");
            Ok(())
        })
    });
}

#[test]
fn a_refusal_is_told_and_the_socket_goes_on() {
    on_each_driver(|runtime| {
        run(runtime.worker(), async {
            let addr = std::net::UdpSocket::bind("127.0.0.1:0")?.local_addr()?;
            let socket = UdpSocket::connect(addr).await?;
            socket.send(b"anybody?").await?;
            assert_eq!(socket.recv().await.expect_err("nobody is there").name(), "ECONNREFUSED");
            let late = std::net::UdpSocket::bind(addr)?;
            socket.send(b"again").await?;
            let client = socket.local_addr()?;
            rt::unblock(move || late.recv_from(&mut [0; 16]).and_then(|_| late.send_to(b"here", client)))
                .await??;
            assert_eq!(&socket.recv().await?[..], b"here");
            Ok(())
        })
    });
}

#[test]
fn dropped_receives_lose_nothing() {
    on_each_driver(|runtime| {
        run(runtime.worker(), async {
            const COUNT: u32 = 400;
            let (near, far) = (UdpSocket::bind("127.0.0.1:0").await?, UdpSocket::bind("127.0.0.1:0").await?);
            let to = far.local_addr()?;
            let sending = spawn(async move {
                for number in 0..COUNT {
                    near.send_to(&number.to_le_bytes(), to).await?;
                }
                Result::Ok(())
            });
            for number in 0..COUNT {
                // Each receive is dropped after so many turns, and asked again.
                let mut turns = number % 4;
                let datagram = loop {
                    if let Some(datagram) = poll_once(far.recv()).await {
                        break datagram?;
                    }
                    for _ in 0..turns {
                        rt::nop().await?;
                    }
                    turns = 1;
                };
                assert_eq!(datagram[..], number.to_le_bytes(), "a datagram was lost or came twice");
            }
            sending.await?
        })
    });
}

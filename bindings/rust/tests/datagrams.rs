// SPDX-License-Identifier: MIT OR Apache-2.0
//! Unix datagram sockets, and what only some UDP sockets have: groups, segments, packet info.

mod common;

use common::{on_each_driver, pattern, poll_once, run, TempDir};
use quoit::net::{SendOptions, UdpSocket, UnixDatagram};
use quoit::{rt, spawn, BindOptions, Error, Result};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::rc::Rc;

fn loopback_index() -> u32 {
    let text = std::fs::read_to_string("/sys/class/net/lo/ifindex").expect("there is a loopback device");
    text.trim().parse().expect("a number")
}

/// A name of the abstract kind, of this process.
fn name(of: &str) -> String {
    format!("\0quoit-rust-{}-{of}", std::process::id())
}

#[test]
fn unix_datagrams_stay_whole() {
    on_each_driver(|runtime| {
        let dir = TempDir::new("unix-datagrams");
        // A scratch region that holds some of them only.
        run(runtime.worker().scratch_len(4096), async {
            let path = dir.0.join("far");
            let (near, far) = (UnixDatagram::bind(name("near")).await?, UnixDatagram::bind(&path).await?);
            for size in [0, 1, 500, 1400, 0] {
                let bytes = pattern(size as u64, size);
                assert_eq!(near.send_to(&bytes, &path).await?, size);
                let datagram = far.recv().await?;
                assert!(datagram[..] == bytes[..] && datagram.whole_len() == size, "{size} bytes changed");
                assert_eq!(datagram.from_path(), near.local_addr()?.to_path());
                assert_eq!((datagram.from(), datagram.to(), datagram.interface()), (None, None, None));
                assert_eq!(far.send_back(datagram).await?, size);
                assert!(near.recv().await?[..] == bytes[..], "{size} bytes changed");
            }
            let long = pattern(7, 30_000);
            near.send_to(&long, &path).await?;
            let datagram = far.recv().await?;
            assert!(datagram.is_truncated() && datagram.whole_len() == long.len());
            assert!(datagram.len() >= 1500 && datagram[..] == long[..datagram.len()]);
            let taken = UnixDatagram::bind(&path).await.expect_err("the path is there");
            assert_eq!(taken.name(), "EADDRINUSE");
            drop(far);
            UnixDatagram::bind_with(&path, BindOptions::new().unlink()).await?;
            let nowhere = near.send_to(b"x", name("nobody")).await.expect_err("nobody is there");
            assert_eq!(nowhere.name(), "ECONNREFUSED");
            let refused = UnixDatagram::bind_with(name("not-ip"), BindOptions::new().packet_info()).await;
            assert_eq!(refused.expect_err("that is of UDP").name(), "QUOIT_E_FLAGS");
            Ok(())
        });
    });
}

#[test]
fn a_unix_peer_without_a_name_cannot_be_answered() {
    on_each_driver(|runtime| {
        run(runtime.worker(), async {
            let server = UnixDatagram::bind(name("server")).await?;
            let client = UnixDatagram::connect(name("server")).await?;
            assert_eq!(client.peer_addr()?, server.local_addr()?);
            client.send(b"no answer, please").await?;
            let datagram = server.recv().await?;
            assert_eq!((&datagram[..], datagram.from_path()), (&b"no answer, please"[..], None));
            let lost = server.send_back(datagram).await.expect_err("to whom?");
            assert!(matches!(lost.name(), "EDESTADDRREQ" | "ENOTCONN"), "{lost:?}");
            Ok(())
        });
    });
}

#[test]
fn dropped_unix_sends_and_receives_lose_nothing() {
    on_each_driver(|runtime| {
        run(runtime.worker(), async {
            const COUNT: u32 = 1000;
            let far = UnixDatagram::bind(name("slow")).await?;
            let near = Rc::new(UnixDatagram::connect(name("slow")).await?);
            let sender = Rc::clone(&near);
            // More than the peer has room for: the send waits.
            let sending = spawn(async move {
                for number in 0..COUNT {
                    sender.send(&number.to_le_bytes()).await?;
                }
                Result::Ok(())
            });
            for number in 0..COUNT {
                let datagram = loop {
                    if let Some(datagram) = poll_once(far.recv()).await {
                        break datagram?;
                    }
                    rt::nop().await?;
                };
                assert_eq!(datagram[..], number.to_le_bytes(), "a datagram was lost or came twice");
            }
            sending.await??;
            Ok(())
        });
    });
}

#[test]
fn a_dropped_unix_send_goes_as_a_whole_or_not_at_all() {
    on_each_driver(|runtime| {
        run(runtime.worker(), async {
            let far = UnixDatagram::bind(name("full")).await?;
            let near = UnixDatagram::connect(name("full")).await?;
            let mut sent = 0u32;
            // Until the peer has no room: that one is dropped while it waits.
            let dropped = loop {
                let bytes = sent.to_le_bytes();
                let mut send = std::pin::pin!(near.send(&bytes));
                let mut done = None;
                for _ in 0..20 {
                    done = poll_once(send.as_mut()).await;
                    if done.is_some() {
                        break;
                    }
                    rt::nop().await?;
                }
                match done {
                    Some(end) => end?,
                    None => break sent,
                };
                sent += 1;
            };
            let last = near.send(b"the last");
            for number in 0..dropped {
                assert_eq!(far.recv().await?[..], number.to_le_bytes());
            }
            last.await?;
            assert_eq!(&far.recv().await?[..], b"the last", "what was dropped has not gone");
            Ok(())
        });
    });
}

#[test]
fn segments_are_split_and_joined() {
    on_each_driver(|runtime| {
        run(runtime.worker(), async {
            const SIZE: u32 = 1200;
            let joining = UdpSocket::bind_with("127.0.0.1:0", BindOptions::new().join_segments()).await?;
            let plain = UdpSocket::bind("127.0.0.1:0").await?;
            let near = UdpSocket::bind("127.0.0.1:0").await?;
            let bytes = pattern(3, 20 * SIZE as usize + 77);
            let options = SendOptions::new().segment_size(SIZE);
            assert_eq!(near.send_with(&bytes, options.to(plain.local_addr()?)).await?, bytes.len());
            for piece in bytes.chunks(SIZE as usize) {
                let datagram = plain.recv().await?;
                assert!(datagram[..] == piece[..] && datagram.segment_size().is_none());
                assert_eq!(datagram.segments().count(), 1);
            }
            near.send_with(&bytes, options.to(joining.local_addr()?)).await?;
            let (mut all, mut joined) = (Vec::new(), 0);
            while all.len() < bytes.len() {
                let datagram = joining.recv().await?;
                joined += usize::from(datagram.segment_size() == Some(SIZE as usize));
                for segment in datagram.segments() {
                    assert!(segment.len() == SIZE as usize || all.len() + segment.len() == bytes.len());
                    all.extend_from_slice(segment);
                }
            }
            assert!(all == bytes && joined > 0, "{joined} were joined");
            near.send_to(b"", joining.local_addr()?).await?;
            let empty = joining.recv().await?;
            assert_eq!(empty.segments().collect::<Vec<_>>(), [b""], "an empty one is one");
            let huge = near.send_with(b"xy", options.segment_size(1 << 16).to(plain.local_addr()?)).await;
            assert_eq!(huge.expect_err("no datagram is so long").name(), "QUOIT_E_FIELD");
            Ok(())
        });
    });
}

#[test]
fn packet_info_tells_where_it_was_sent_to() {
    on_each_driver(|runtime| {
        run(runtime.worker(), async {
            let lo = loopback_index();
            for (any, here) in [
                (IpAddr::from(Ipv4Addr::UNSPECIFIED), IpAddr::from([127, 0, 0, 7])),
                (Ipv6Addr::UNSPECIFIED.into(), Ipv6Addr::LOCALHOST.into()),
            ] {
                let options = BindOptions::new().packet_info().v6_only();
                let server = UdpSocket::bind_with(std::net::SocketAddr::new(any, 0), options).await?;
                let port = server.local_addr()?.port();
                let client = UdpSocket::connect(std::net::SocketAddr::new(here, port)).await?;
                client.send(b"to one of many").await?;
                let datagram = server.recv().await?;
                assert_eq!(
                    datagram.to(),
                    Some(std::net::SocketAddr::new(here, port)).map(|mut to| {
                        if let std::net::SocketAddr::V6(to) = &mut to {
                            to.set_scope_id(lo);
                        }
                        to
                    })
                );
                assert_eq!(datagram.interface(), Some(lo));
                // Only an answer from there reaches a connected client.
                let to = SendOptions::new().to(client.local_addr()?);
                server.send_with(b"from there", to.interface(lo).source(here)).await?;
                let answer = client.recv().await?;
                assert_eq!(&answer[..], b"from there");
                assert_eq!((answer.from().map(|from| from.ip()), answer.to()), (Some(here), None));
            }
            Ok(())
        });
    });
}

#[test]
fn groups_are_joined_and_left() {
    on_each_driver(|runtime| {
        run(runtime.worker(), async {
            let lo = loopback_index();
            let (group, other) = (IpAddr::from([239, 255, 78, 1]), IpAddr::from([239, 255, 78, 2]));
            let member = UdpSocket::bind("0.0.0.0:0").await?;
            let port = member.local_addr()?.port();
            member.join_multicast(group, lo).await?;
            member.join_multicast(other, lo).await?;
            let twice = member.join_multicast(group, lo).await.expect_err("it has joined");
            assert_eq!(twice.name(), "EADDRINUSE");
            let sender = UdpSocket::bind("0.0.0.0:0").await?;
            let to = |group| SendOptions::new().to(std::net::SocketAddr::new(group, port)).interface(lo);
            sender.send_with(b"to the group", to(group)).await?;
            assert_eq!(&member.recv().await?[..], b"to the group");
            member.leave_multicast(group, lo).await?;
            let left = member.leave_multicast(group, lo).await.expect_err("it has left");
            assert_eq!(left.name(), "EADDRNOTAVAIL");
            sender.send_with(b"to nobody", to(group)).await?;
            sender.send_with(b"to the other", to(other)).await?;
            assert_eq!(&member.recv().await?[..], b"to the other", "what was sent to a group that it left");
            let none = member.join_multicast([127, 0, 0, 1].into(), lo).await.expect_err("that is no group");
            assert_eq!(none.name(), "EINVAL");
            assert_ne!(none, Error::CANCELED);
            Ok(())
        });
    });
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! A lane with a datagram socket, UDP or Unix, on which one future after the other meets a cut.

use crate::ledger::{add, cost_of, fault, Left, Random, Tally};
use crate::trial::{at_once, Boxed, Clock, Moment, Trial};
use crate::World;
use quoit::net::{Datagram, UdpSocket, UnixDatagram};
use quoit::{rt, BindOptions, Result};
use std::cell::RefCell;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;

/// What the queue of a UDP socket is sure to hold: half of the kernel's default, since it gives room back late.
const ROOM: usize = 100_000;
/// What a receive without a bound of its own brings at least.
const LEAST: usize = 1500;
const CUTS: [&str; 3] = ["drop", "timeout", "abort"];

enum Socket {
    Udp(UdpSocket),
    Unix(UnixDatagram),
}

impl Socket {
    async fn recv(&self) -> Result<Datagram> {
        match self {
            Socket::Udp(socket) => socket.recv().await,
            Socket::Unix(socket) => socket.recv().await,
        }
    }
}

enum Mate {
    Udp(std::net::UdpSocket, SocketAddr),
    Unix(std::os::unix::net::UnixDatagram, PathBuf),
}

impl Mate {
    fn send(&self, bytes: &[u8]) -> bool {
        let sent = match self {
            Mate::Udp(socket, to) => socket.send_to(bytes, to),
            Mate::Unix(socket, to) => socket.send_to(bytes, to),
        };
        match sent {
            Ok(_) => true,
            Err(error) if error.kind() == ErrorKind::WouldBlock => false,
            Err(error) => fault(&format!("the peer cannot send: {error}")),
        }
    }

    fn recv(&self, buffer: &mut [u8]) -> Option<usize> {
        let got = match self {
            Mate::Udp(socket, _) => socket.recv(buffer),
            Mate::Unix(socket, _) => socket.recv(buffer),
        };
        match got {
            Ok(len) => Some(len),
            Err(error) if error.kind() == ErrorKind::WouldBlock => None,
            Err(error) => fault(&format!("the peer cannot receive: {error}")),
        }
    }
}

/// A socket with its peer and the accounts of both ways.
struct Pair {
    socket: Rc<Socket>,
    mate: Mate,
    there: String,
    into: Tally,
    out: Tally,
    most: usize,
}

pub struct Post {
    number: usize,
    world: Rc<World>,
    random: Random,
    names: u32,
}

impl Post {
    pub fn new(number: usize, world: &Rc<World>) -> Post {
        Post { number, world: Rc::clone(world), random: Random::new(world.random.below(u64::MAX)), names: 0 }
    }

    pub async fn run(mut self) {
        while !self.world.over() {
            let mut pair = self.open().await.unwrap_or_else(|error| fault(&format!("bind: {error}")));
            while !self.world.over() && !self.random.once_in(40) {
                if self.random.below(10) < 6 {
                    self.recv(&mut pair).await;
                } else {
                    self.send(&mut pair).await;
                }
                if self.random.once_in(3) {
                    self.settle(&mut pair, true).await;
                }
            }
            self.end(pair).await;
        }
    }

    async fn open(&mut self) -> Result<Pair> {
        self.names += 2;
        let most = self.random.of(&[0, 60_000, 200]);
        let options = BindOptions::new().receive_max(most as u32);
        let unix = self.random.once_in(2);
        let (here, there) = (
            self.world.addr(unix, self.number, &format!("post{}", self.names)),
            self.world.addr(unix, self.number, &format!("mate{}", self.names)),
        );
        let (socket, mate, there) = if unix {
            let (here, there) = (here.trim_start_matches("unix:"), there.trim_start_matches("unix:"));
            let mate = std::os::unix::net::UnixDatagram::bind(there)?;
            mate.set_nonblocking(true)?;
            let socket = UnixDatagram::bind_with(here, options).await?;
            (Socket::Unix(socket), Mate::Unix(mate, here.into()), there.to_string())
        } else {
            let mate = std::net::UdpSocket::bind(there)?;
            mate.set_nonblocking(true)?;
            let there = mate.local_addr()?.to_string();
            let socket = UdpSocket::bind_with(here.as_str(), options).await?;
            let here = socket.local_addr()?;
            (Socket::Udp(socket), Mate::Udp(mate, here), there)
        };
        let seed = self.world.next_seed();
        Ok(Pair {
            socket: Rc::new(socket),
            mate,
            there,
            into: Tally::new(seed),
            out: Tally::new(seed + 1),
            most,
        })
    }

    fn len(&self) -> usize {
        self.random.below(self.random.of(&[100, 1400, 1400, 8000, 30_000])) as usize
    }

    /// UDP drops what the queue at the other end has no room for: never is more on its way.
    fn fits(&self, pair: &Pair, tally: &Tally, len: usize) -> bool {
        matches!(pair.mate, Mate::Unix(..)) || tally.cost() + cost_of(len) <= ROOM
    }

    fn mate_sends(&self, pair: &mut Pair) {
        let len = self.len();
        if !self.fits(pair, &pair.into, len) {
            return;
        }
        let (number, bytes) = pair.into.make(len);
        match pair.mate.send(&bytes) {
            true => pair.into.left(number, Left::Yes, &self.world.totals),
            false => pair.into.refused(number, &self.world.totals),
        }
    }

    fn mate_receives(&self, pair: &mut Pair, most: u64) {
        let mut buffer = [0; 65_536];
        for _ in 0..most {
            let Some(len) = pair.mate.recv(&mut buffer) else { return };
            pair.out.came(&buffer[..len], len, &self.world.totals);
        }
    }

    fn came(&self, pair: &mut Pair, datagram: Result<Datagram>) {
        let datagram = datagram.unwrap_or_else(|error| fault(&format!("a receive ended with {error}")));
        let (len, whole) = (datagram.len(), datagram.whole_len());
        if datagram.is_truncated() && (if pair.most == 0 { len < LEAST } else { len != pair.most }) {
            fault(&format!("a datagram of {whole} bytes came with {len}"));
        }
        let from = match pair.mate {
            Mate::Udp(..) => datagram.from().map(|addr| addr.to_string()),
            Mate::Unix(..) => datagram.from_path().map(|path| path.display().to_string()),
        };
        if from.as_deref() != Some(&pair.there) {
            fault(&format!("a datagram came from {from:?}, the peer is at {}", pair.there));
        }
        pair.into.came(&datagram, whole, &self.world.totals);
    }

    /// Takes what has come already.
    async fn drain(&self, pair: &mut Pair) -> bool {
        let mut some = false;
        loop {
            let socket = Rc::clone(&pair.socket);
            let Some(datagram) = at_once(Box::pin(async move { socket.recv().await })).await else {
                return some;
            };
            self.came(pair, datagram);
            some = true;
        }
    }

    async fn recv(&mut self, pair: &mut Pair) {
        let mut trial = Trial::new("recv_datagram", self.random.of(&CUTS), &self.random);
        self.drain(pair).await;
        let socket = Rc::clone(&pair.socket);
        let future = Box::pin(async move { socket.recv().await });
        let value = trial
            .run(
                &self.random,
                future,
                |first| {
                    if first {
                        self.mate_sends(pair)
                    }
                },
                || (),
            )
            .await;
        let (done, mut there) = (value.is_some(), false);
        match value {
            Some(datagram) => self.came(pair, datagram),
            None => there = self.drain(pair).await,
        }
        trial.count(&self.world.totals, done, there);
    }

    /// A send of a datagram: it begins with this call.
    fn begin(&self, pair: &Pair, bytes: &[u8]) -> Boxed<Result<usize>> {
        let addr = || pair.there.parse::<SocketAddr>().unwrap_or_else(|_| fault("the peer's address"));
        match &*pair.socket {
            Socket::Udp(socket) => Box::pin(socket.send_to(bytes, addr())),
            Socket::Unix(socket) => Box::pin(socket.send_to(bytes, PathBuf::from(&pair.there))),
        }
    }

    async fn send(&mut self, pair: &mut Pair) {
        let mut trial = Trial::new("send_datagram", self.random.of(&CUTS), &self.random);
        let clock = Clock::new("a datagram does not leave");
        let mut before = Vec::new();
        for _ in 0..self.random.below(14) {
            let len = self.len();
            if self.fits(pair, &pair.out, len) {
                let (number, bytes) = pair.out.make(len);
                before.push((number, rt::spawn(self.begin(pair, &bytes))));
            }
        }
        let len = self.len().max(crate::ledger::HEAD);
        while !self.fits(pair, &pair.out, len) {
            self.mate_receives(pair, u64::MAX);
            clock.tick().await;
        }
        let (number, bytes) = pair.out.make(len);
        let future = self.begin(pair, &bytes);
        let late = trial.moment == Moment::Late;
        let shared = RefCell::new(&mut *pair);
        let read = |_: bool| {
            let most = if late { u64::MAX } else { 1 + self.random.below(3) };
            self.mate_receives(&mut shared.borrow_mut(), most);
        };
        let value = trial.run(&self.random, future, read, || ()).await;
        let totals = &self.world.totals;
        let done = value.is_some();
        match value {
            Some(Ok(count)) if count == len => pair.out.left(number, Left::Yes, totals),
            Some(other) => fault(&format!("a send of {len} bytes ended with {other:?}")),
            None => pair.out.left(number, Left::Maybe, totals),
        }
        for (number, sending) in before {
            while !sending.is_finished() {
                self.mate_receives(pair, u64::MAX);
                clock.tick().await;
            }
            match sending.await {
                Ok(Ok(_)) => pair.out.left(number, Left::Yes, totals),
                other => fault(&format!("a send that nobody cut ended with {other:?}")),
            }
        }
        if !done {
            self.mate_receives(pair, u64::MAX);
        }
        let arrived = pair.out.has_arrived(number);
        trial.count(totals, done, arrived);
    }

    /// What is on its way arrives, both ways; what does not is lost.
    async fn settle(&self, pair: &mut Pair, receives: bool) {
        let clock = Clock::new("datagrams");
        while !clock.late() {
            self.mate_receives(pair, u64::MAX);
            if receives {
                self.drain(pair).await;
            }
            if pair.out.is_whole() && (!receives || pair.into.is_whole()) {
                return;
            }
            clock.tick().await;
        }
    }

    async fn end(&self, mut pair: Pair) {
        self.settle(&mut pair, true).await;
        let whole = pair.into.is_whole();
        pair.into.close(true, &self.world.totals);
        pair.out.close(true, &self.world.totals);
        add(&self.world.totals.connections, u64::from(whole));
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! A lane: a listener and a stream of its own, on which one future after the other meets a cut.

use crate::ledger::{add, fault, Flow, Random};
use crate::peers::{Peer, Plain};
use crate::trial::{at_once, Clock, Moment, Trial};
use crate::World;
use quoit::net::{Listener, Stream};
use quoit::{rt, time, Result};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

/// A connection and its account.
struct Line {
    stream: Rc<Stream>,
    peer: Peer,
    into: Flow,
    out: Flow,
    /// Torn by an abort or reset; the stream told an error; its end was seen.
    torn: bool,
    broken: bool,
    eof: bool,
}

pub struct Lane {
    number: usize,
    world: Rc<World>,
    random: Random,
    unix: bool,
    listener: Option<(Rc<Listener>, String)>,
    plain: Option<(Plain, String)>,
    made: BTreeMap<u32, Peer>,
    idents: u32,
    names: u32,
}

const CUTS: [&str; 3] = ["drop", "timeout", "abort"];

impl Lane {
    pub fn new(number: usize, world: &Rc<World>) -> Lane {
        let random = Random::new(world.random.below(u64::MAX));
        let made = BTreeMap::new();
        Lane {
            number,
            world: Rc::clone(world),
            random,
            unix: false,
            listener: None,
            plain: None,
            made,
            idents: 0,
            names: 0,
        }
    }

    pub async fn run(mut self) {
        while !self.world.over() {
            let Some(mut line) = self.establish().await else { continue };
            while !self.world.over() && self.trial(&mut line).await {}
            self.end(line).await;
        }
    }

    fn addr(&mut self, what: &str) -> String {
        self.names += 1;
        self.world.addr(self.unix, self.number, &format!("{what}{}", self.names))
    }

    async fn establish(&mut self) -> Option<Line> {
        if self.listener.is_none() {
            self.unix = self.random.once_in(3);
            self.plain = None;
            let addr = self.addr("worker");
            let listener =
                Listener::bind(addr.as_str()).await.unwrap_or_else(|error| fault(&format!("bind: {error}")));
            let addr = if self.unix { addr } else { listener.local_addr().map_or(addr, |at| at.to_string()) };
            self.listener = Some((Rc::new(listener), addr));
        }
        if self.random.below(10) < 7 {
            self.accept().await
        } else {
            self.connect().await
        }
    }

    fn line(&self, stream: Stream, peer: Peer) -> Line {
        let seed = self.world.next_seed();
        let (into, out) = (Flow::new(seed), Flow::new(seed + 1));
        Line { stream: Rc::new(stream), peer, into, out, torn: false, broken: false, eof: false }
    }

    /// An accepted stream: whose it is, and that it came once.
    async fn taken(&mut self, stream: Stream) -> Line {
        let mut ident = Vec::new();
        if !matches!(stream.read_until_len(&mut ident, 4).await, Ok(true)) {
            fault("an accepted stream does not bring its first bytes");
        }
        add(&self.world.totals.accepted, 1);
        let ident = u32::from_le_bytes([ident[0], ident[1], ident[2], ident[3]]);
        let Some(peer) = self.made.remove(&ident) else {
            fault("a connection was accepted that nobody made, or twice")
        };
        self.line(stream, peer)
    }

    async fn accept(&mut self) -> Option<Line> {
        let (listener, addr) = self.listener.clone()?;
        let mut trial = Trial::new("accept", self.random.of(&CUTS), &self.random);
        let accepting = Rc::clone(&listener);
        let future = Box::pin(async move { accepting.accept().await });
        let (random, idents, made) = (&self.random, &mut self.idents, &mut self.made);
        let dial = |first: bool| {
            let Some(mut peer) = first.then(|| Peer::dial(&addr)).flatten() else { return };
            *idents += 1;
            peer.write(&idents.to_le_bytes());
            made.insert(*idents, peer);
        };
        let value = trial.run(random, future, dial, || ()).await;
        let done = value.is_some();
        let there = match done {
            true => None,
            false => {
                let door = Rc::clone(&listener);
                at_once(Box::pin(async move { door.accept().await })).await
            }
        };
        trial.count(&self.world.totals, done, there.is_some());
        let mut line = None;
        for stream in [value, there].into_iter().flatten() {
            let stream = stream.unwrap_or_else(|error| fault(&format!("accept: {error}")));
            line = Some(self.taken(stream).await);
        }
        if self.random.once_in(8) {
            drop(listener);
            self.refuse().await;
            return line;
        }
        // What was not accepted by the one that was cut is accepted now: no cut loses a connection.
        while !self.made.is_empty() {
            let waited = time::timeout(Duration::from_secs(30), listener.accept()).await;
            let Ok(Ok(stream)) = waited else { fault("a connection was lost") };
            let another = self.taken(stream).await;
            match line {
                None => line = Some(another),
                Some(_) => self.end(another).await,
            }
        }
        line
    }

    /// The listener is dropped: whom nobody accepted sees an end.
    async fn refuse(&mut self) {
        let Some((listener, addr)) = self.listener.take() else { return };
        for _ in 0..self.random.below(3) {
            self.made.extend(Peer::dial(&addr).map(|peer| (u32::MAX - self.made.len() as u32, peer)));
        }
        for _ in 0..self.random.below(3) {
            rt::nop().await.ok();
        }
        drop(listener);
        let clock = Clock::new("a connection that a dropped listener has not accepted does not end");
        for peer in self.made.values_mut() {
            while !peer.ended {
                peer.recv(None, usize::MAX, &self.world.totals);
                clock.tick().await;
            }
        }
        self.made.clear();
    }

    async fn connect(&mut self) -> Option<Line> {
        if self.plain.is_none() {
            let addr = self.addr("peer");
            self.plain = Some(Plain::bind(&addr));
        }
        let (plain, addr) = self.plain.as_ref()?;
        while plain.accept().is_some() {} // of connects that were cut, and went on without anybody
        let mut trial = Trial::new("connect", self.random.of(&CUTS), &self.random);
        let to = addr.clone();
        let future = Box::pin(async move { Stream::connect(to.as_str()).await });
        let value = trial.run(&self.random, future, |_| (), || ()).await;
        let Some(stream) = value else {
            let left = plain.accept();
            trial.count(&self.world.totals, false, left.is_some());
            if let Some(mut peer) = left {
                let clock = Clock::new("a connection whose connect was cut does not end");
                while !peer.ended {
                    peer.recv(None, usize::MAX, &self.world.totals);
                    clock.tick().await;
                }
            }
            return None;
        };
        let stream = stream.unwrap_or_else(|error| fault(&format!("connect: {error}")));
        trial.count(&self.world.totals, true, true);
        let here = stream.local_addr().map_or(String::new(), |addr| addr.to_string());
        let clock = Clock::new("a connection that was made is not there");
        loop {
            if let Some(peer) = plain.accept().filter(|peer| peer.is_at(&here)) {
                return Some(self.line(stream, peer));
            }
            clock.tick().await;
        }
    }

    /// False if the connection must end.
    async fn trial(&mut self, line: &mut Line) -> bool {
        if self.random.below(10) < 6 {
            self.recv(line).await;
        } else {
            self.send(line).await;
        }
        let over =
            line.broken || line.eof || line.torn || line.peer.fin || line.peer.gone() || line.peer.ended;
        if !over && self.random.once_in(3) {
            self.settle(line).await;
        }
        !over
    }

    fn got(&self, line: &mut Line, value: Result<Vec<u8>>) -> bool {
        let bytes = value.unwrap_or_else(|error| {
            if !line.peer.gone() {
                fault(&format!("a receive ended with {error}, but the peer is there"));
            }
            line.broken = true;
            Vec::new()
        });
        if bytes.is_empty() && !line.broken && !line.peer.fin && !line.peer.gone() {
            fault("a stream ended, but its peer has not");
        }
        line.eof |= bytes.is_empty();
        line.into.came(&bytes, &self.world.totals);
        !bytes.is_empty()
    }

    async fn recv(&mut self, line: &mut Line) {
        let cut =
            self.random.of(&["drop", "drop", "drop", "timeout", "timeout", "abort", "abort", "end", "reset"]);
        let mut trial = Trial::new("recv", cut, &self.random);
        let len = 1 + self.random.below(self.random.of(&[16, 300, 3000, 20_000])) as usize;
        let (way, most) = (self.random.below(2), self.random.of(&[1, 100, 65_536]));
        let (stream, later) = (Rc::clone(&line.stream), Rc::clone(&line.stream));
        let read = async move {
            if way == 0 {
                return stream.recv().await.map(|lease| lease.as_deref().unwrap_or_default().to_vec());
            }
            let mut bytes = vec![0; most];
            stream.read(&mut bytes).await.map(|count| bytes[..count].to_vec())
        };
        let (peer, into) = (std::cell::RefCell::new(&mut line.peer), &mut line.into);
        let send = |first: bool| {
            if first {
                into.sent += peer.borrow_mut().write(&into.next(len)) as u64;
            }
        };
        let cut_peer = || match cut {
            "end" => peer.borrow_mut().end(),
            "reset" => peer.borrow_mut().reset(),
            _ => (),
        };
        let value = trial.run(&self.random, Box::pin(read), send, cut_peer).await;
        let (mut done, mut there) = (false, false);
        match value {
            Some(value) => done = self.got(line, value),
            // What came as the cut had its way is the next one's.
            None => {
                let next = async move {
                    later.recv().await.map(|lease| lease.as_deref().unwrap_or_default().to_vec())
                };
                if let Some(value) = at_once(Box::pin(next)).await {
                    there = self.got(line, value);
                }
            }
        }
        line.torn |= cut == "reset";
        trial.count(&self.world.totals, done, there);
    }

    async fn send(&mut self, line: &mut Line) {
        let cut = self.random.of(&["drop", "drop", "drop", "timeout", "timeout", "abort", "abort", "reset"]);
        let mut trial = Trial::new("send", cut, &self.random);
        let mut before = Vec::new();
        for _ in 0..self.random.below(4) {
            let bytes = line.out.next(1 + self.random.below(20_000) as usize);
            line.out.sent += bytes.len() as u64;
            before.push(rt::spawn(line.stream.send(bytes)));
        }
        let largest = self.random.of(&[100, 2000, 30_000, 400_000, 400_000]);
        let bytes = line.out.next(1 + self.random.below(largest) as usize);
        let (len, pieces) = (bytes.len(), self.random.once_in(3));
        let stream = Rc::clone(&line.stream);
        let sending = async move {
            if pieces {
                let middle = bytes.len() / 3;
                return stream.send_many(vec![bytes[..middle].to_vec(), bytes[middle..].to_vec()]).await.0;
            }
            stream.send(bytes).await.0
        };
        let (peer, out, totals) =
            (std::cell::RefCell::new(&mut line.peer), &mut line.out, &self.world.totals);
        let late = trial.moment == Moment::Late;
        let random = &self.random;
        let read = |_: bool| {
            let most = if late { 1 << 20 } else { 1 + random.below(30_000) as usize };
            peer.borrow_mut().recv(Some(out), most, totals);
        };
        let value = trial
            .run(random, Box::pin(sending), read, || {
                if cut == "reset" {
                    peer.borrow_mut().reset()
                }
            })
            .await;
        let sent = match value {
            Some(Ok(sent)) => sent,
            Some(Err(error)) if line.peer.gone() => {
                line.broken = error.name() == "ECONNRESET" || error.name() == "EPIPE";
                if !line.broken {
                    fault(&format!("a send to a peer that is gone ended with {error}"));
                }
                0
            }
            Some(Err(error)) => fault(&format!("a send ended with {error}")),
            None => self.dropped(line, len).await,
        };
        if value.is_some_and(|end| end.is_ok()) && sent != len {
            fault("a send that is done did not send all");
        }
        line.out.sent += sent as u64;
        line.torn |= cut == "reset";
        let clock = Clock::new("a send that nobody cut");
        for sending in before {
            while !sending.is_finished() {
                line.peer.recv(Some(&mut line.out), usize::MAX, totals);
                clock.tick().await;
            }
            match sending.await {
                Ok((Ok(_), _)) => (),
                _ if line.peer.gone() => line.broken = true,
                other => fault(&format!("a send that nobody cut ended with {:?}", other.map(|end| end.0))),
            }
        }
        trial.count(totals, value.is_some_and(|end| end.is_ok()), sent != 0);
    }

    /// How far a send came whose future was dropped.
    async fn dropped(&self, line: &mut Line, len: usize) -> usize {
        let stream = Rc::clone(&line.stream);
        let settling = rt::spawn(async move { stream.settle().await });
        let clock = Clock::new("a dropped send does not end");
        while !settling.is_finished() {
            clock.tick().await;
        }
        match settling.await {
            // It was dropped before it began.
            Ok(Ok(sends)) if sends.is_empty() => 0,
            Ok(Ok(sends)) if sends.len() == 1 && sends[0].len == len => sends[0].sent,
            other => fault(&format!("of one dropped send of {len} bytes is told: {other:?}")),
        }
    }

    /// What is on its way arrives, both ways.
    async fn settle(&mut self, line: &mut Line) {
        let clock = Clock::new("bytes are on their way for ever");
        while !line.eof && !line.broken && line.into.arrived < line.into.sent {
            let value = line.stream.recv().await.map(|lease| lease.as_deref().unwrap_or_default().to_vec());
            self.got(line, value);
        }
        while line.out.arrived < line.out.sent && !line.peer.ended && !line.peer.gone() {
            line.peer.recv(Some(&mut line.out), usize::MAX, &self.world.totals);
            clock.tick().await;
        }
    }

    /// The connection ends by a close, an abort or a drop; then its account is made.
    async fn end(&mut self, mut line: Line) {
        let totals = &self.world.totals;
        while line.peer.fin && !line.peer.gone() && !line.eof && !line.broken {
            let value = line.stream.recv().await.map(|lease| lease.as_deref().unwrap_or_default().to_vec());
            self.got(&mut line, value);
        }
        let clock = Clock::new("a stream does not close");
        let Line { stream, mut peer, into, mut out, mut torn, broken, eof } = line;
        let mut stream = Some(stream);
        while stream.as_ref().is_some_and(|stream| Rc::strong_count(stream) > 1) {
            clock.tick().await; // an aborted task lets go of it
        }
        let stream = stream.take().and_then(Rc::into_inner).unwrap_or_else(|| fault("a stream is shared"));
        let way = self.random.below(4);
        torn |= way == 0;
        let closing = rt::spawn(async move {
            match way {
                0 => stream.abort().await.map(|_| ()),
                1 => {
                    drop(stream);
                    Ok(())
                }
                _ => stream.close(None).await.map(|_| ()),
            }
        });
        while !closing.is_finished() || !(peer.gone() || peer.ended) {
            peer.recv(Some(&mut out), usize::MAX, totals);
            if peer.ended {
                peer.close();
            }
            clock.tick().await;
        }
        match closing.await {
            Ok(Ok(())) => (),
            other => fault(&format!("a close ended with {other:?}")),
        }
        out.close(!torn && !broken, totals);
        into.close(eof && !broken && !torn, totals);
        add(&totals.bytes_sent, out.arrived);
        add(&totals.bytes_received, into.arrived);
        add(&totals.connections, 1);
    }
}

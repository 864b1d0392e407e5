// SPDX-License-Identifier: MIT OR Apache-2.0
//! What both services share: arguments, the signal that ends them, and the line they say goodbye with.

use quoit::{Driver, Runtime, Stats, WorkerBuilder};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::FromRawFd;
use std::process::ExitCode;

/// The command line: positional arguments, and `--driver D`, `--buffers N`, `--events N`.
pub struct Args {
    pub positional: Vec<String>,
    driver: Driver,
    buffers: u32,
    events: u32,
}

impl Args {
    /// Reads the command line, which must have as many positional arguments as `usage` names.
    pub fn read(usage: &[&str]) -> Result<Args, String> {
        let mut args = Args { positional: Vec::new(), driver: Driver::Auto, buffers: 0, events: 0 };
        let mut words = std::env::args().skip(1);
        while let Some(word) = words.next() {
            let mut number = || words.next()?.parse().ok();
            let known = match word.as_str() {
                "--buffers" => number().map(|count| args.buffers = count),
                "--events" => number().map(|count| args.events = count),
                "--driver" => {
                    words.next().and_then(|name| name.parse().ok()).map(|driver| args.driver = driver)
                }
                option if option.starts_with("--") => None,
                _ => {
                    args.positional.push(word.clone());
                    Some(())
                }
            };
            known.ok_or_else(|| format!("cannot understand {word} and what follows it"))?;
        }
        if args.positional.len() != usage.len() {
            return Err(format!("usage: {} [--driver D] [--buffers N] [--events N]", usage.join(" ")));
        }
        Ok(args)
    }

    /// The runtime, and options for its one worker.
    pub fn runtime(&self) -> quoit::Result<(Runtime, WorkerBuilder)> {
        let runtime = Runtime::builder().driver(self.driver).build()?;
        let worker = runtime.worker().recv_buffers(self.buffers).events_max(self.events);
        Ok((runtime, worker))
    }
}

/// Runs a service: what goes wrong is said on standard error.
pub fn main(service: fn() -> Result<(), Box<dyn std::error::Error>>) -> ExitCode {
    match service() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Tells whoever started us that connections are welcome.
pub fn listening(addr: quoit::Addr) -> io::Result<()> {
    println!("listening on {addr}");
    io::stdout().flush()
}

/// The last line: what the handlers counted, and what the worker did.
pub fn farewell(runtime: &Runtime, messages: u64, bytes: u64, stats: &Stats) -> io::Result<()> {
    println!(
        "{{\"language\":\"rust\",\"driver\":\"{}\",\"handler_messages\":{messages},\"handler_bytes\":{bytes},\"stats\":{}}}",
        runtime.driver(),
        stats.to_json()
    );
    io::stdout().flush()
}

extern "C" {
    fn sigemptyset(set: *mut SigSet) -> i32;
    fn sigaddset(set: *mut SigSet, signal: i32) -> i32;
    fn pthread_sigmask(how: i32, set: *const SigSet, old: *mut SigSet) -> i32;
    fn signalfd(fd: i32, set: *const SigSet, flags: i32) -> i32;
}

/// As large as any libc's.
#[repr(C, align(8))]
struct SigSet([u64; 16]);

/// A descriptor that becomes readable when SIGTERM or SIGINT comes; they no longer end the process by themselves.
pub fn stop_signals() -> io::Result<File> {
    const SIGINT: i32 = 2;
    const SIGTERM: i32 = 15;
    const SIG_BLOCK: i32 = 0;
    const SFD_CLOEXEC: i32 = 0o2000000;
    let mut set = SigSet([0; 16]);
    // SAFETY: the set is large enough for the C library's own, initialised before use, and not kept by any of these calls; a
    // descriptor that is not negative is new, and ours.
    unsafe {
        sigemptyset(&mut set);
        sigaddset(&mut set, SIGTERM);
        sigaddset(&mut set, SIGINT);
        let refused = pthread_sigmask(SIG_BLOCK, &set, std::ptr::null_mut());
        if refused != 0 {
            return Err(io::Error::from_raw_os_error(refused));
        }
        match signalfd(-1, &set, SFD_CLOEXEC) {
            fd if fd >= 0 => Ok(File::from_raw_fd(fd)),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

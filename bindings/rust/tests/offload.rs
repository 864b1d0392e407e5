// SPDX-License-Identifier: MIT OR Apache-2.0
//! Work on the blocking pool: native functions described at run time, and closures.

mod common;

use common::{check_echo_on, on_each_driver, pattern};
use quoit::net::Listener;
use quoit::{rt, symbol, value_of, Call, Error, Kind, Result};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

#[test]
fn pow_takes_and_gives_doubles() {
    on_each_driver(|runtime| {
        let pow = symbol(Some("libm.so.6"), "pow").expect("libm has pow");
        let mut executor = runtime.worker().executor().expect("an executor");
        let value = executor.block_on(async {
            // SAFETY: pow takes two doubles and returns one.
            let call = unsafe { Call::new::<f64>(pow) }.arg(2.0f64).arg(10.5f64);
            let wrong_type = rt::native::<u64>(call.clone()).await;
            assert_eq!(wrong_type, Err(Error::ARGUMENT));
            rt::native::<f64>(call).await
        });
        let value = value.expect("the executor runs").expect("the call works");
        assert!((value - 2f64.powf(10.5)).abs() < 1e-9, "pow gave {value}");
    });
}

#[test]
fn crc32_of_a_zlib_opened_at_run_time() {
    let crc32 = match symbol(Some("libz.so.1"), "crc32") {
        Ok(address) => address,
        Err(error) => return common::skipped(&format!("crc32: this machine has no libz.so.1 ({error})")),
    };
    on_each_driver(move |runtime| {
        let mut worker = runtime.worker().build().expect("a worker");
        let bytes = b"123456789";
        // SAFETY: uLong crc32(uLong, const Bytef *, uInt); the bytes outlive the call, which is awaited below.
        let call = unsafe { Call::new::<u64>(crc32) }.arg(0u64).arg(bytes.as_ptr()).arg(9u32);
        worker.batch().offload(&call, 5);
        let mut sum = None;
        while sum.is_none() {
            let batch = worker.turn(Some(Duration::from_secs(10))).expect("a turn");
            for event in batch.events().filter(|event| event.kind() == Kind::Offload) {
                assert_eq!(event.result(), Ok(0));
                sum = Some(value_of::<u64>(event.value()));
            }
        }
        assert_eq!(sum, Some(0xcbf4_3926));
    });
}

#[test]
fn missing_symbols_are_errors() {
    assert!(symbol(Some("libm.so.6"), "no_such_function").is_err());
    assert!(symbol(Some("/no/such/library.so"), "pow").is_err());
    assert!(symbol(None, "a\0b").is_err());
}

#[test]
fn echoes_go_on_while_a_call_blocks() {
    on_each_driver(|runtime| {
        let read = symbol(Some("libc.so.6"), "read").expect("the C library has read");
        let mut executor = runtime.worker().executor().expect("an executor");
        let outcome = executor.block_on(async {
            let listener = Listener::bind("127.0.0.1:0").await?;
            let port = listener.port();
            rt::spawn(async move {
                let stream = listener.accept().await?;
                while let Some(bytes) = stream.recv().await? {
                    stream.send(bytes).await.0?;
                }
                Result::Ok(())
            });
            let (near, far) = UnixStream::pair()?;
            let byte: &'static mut [u8; 1] = Box::leak(Box::new([0]));
            // SAFETY: ssize_t read(int, void *, size_t); the byte is there for good, and the descriptor until the end of the call.
            let call =
                unsafe { Call::new::<i64>(read) }.arg(far.as_raw_fd()).arg(byte.as_mut_ptr()).arg(1u64);
            let blocked = rt::spawn(rt::native::<i64>(call));
            let echoes = rt::unblock(move || {
                let stream = std::net::TcpStream::connect(("127.0.0.1", port)).expect("the echo accepts");
                stream.set_nodelay(true).expect("an option can be set");
                for number in 0..1000 {
                    check_echo_on(&stream, &pattern(number, 100));
                }
            });
            echoes.await?;
            assert!(!blocked.is_finished(), "nothing was written yet");
            (&near).write_all(b"x")?;
            assert_eq!(blocked.await??, 1);
            Result::Ok(())
        });
        outcome.expect("the executor runs").expect("no error");
    });
}

#[test]
fn many_closures() {
    on_each_driver(|runtime| {
        let mut executor = runtime.worker().executor().expect("an executor");
        let sum = executor.block_on(async {
            let tasks: Vec<_> =
                (0..500u64).map(|number| rt::spawn(rt::unblock(move || number * 2))).collect();
            let mut sum = 0;
            for task in tasks {
                sum += task.await??;
            }
            Result::Ok(sum)
        });
        assert_eq!(sum.expect("the executor runs"), Ok(499 * 500));
    });
}

#[test]
fn sixteen_arguments_and_every_type() {
    extern "C" fn mix(
        a: i8,
        b: u8,
        c: i16,
        d: u16,
        e: i32,
        f: u32,
        g: i64,
        h: u64,
        i: f32,
        j: f64,
        k: *const u8,
    ) -> f64 {
        f64::from(a)
            + f64::from(b)
            + f64::from(c)
            + f64::from(d)
            + f64::from(e)
            + f64::from(f)
            + g as f64
            + h as f64
            + f64::from(i)
            + j
            + k.addr() as f64
    }
    on_each_driver(|runtime| {
        let mut executor = runtime.worker().executor().expect("an executor");
        let value = executor.block_on(async {
            // SAFETY: the arguments are those of mix, which touches no memory.
            let call = unsafe { Call::new::<f64>(mix as *const () as usize as u64) }
                .arg(-1i8)
                .arg(250u8)
                .arg(-300i16)
                .arg(60_000u16)
                .arg(-70_000i32)
                .arg(4_000_000_000u32)
                .arg(-5i64)
                .arg(6u64)
                .arg(0.5f32)
                .arg(0.25f64)
                .arg(std::ptr::without_provenance::<u8>(1000));
            rt::native::<f64>(call).await
        });
        let expected = -1.0 + 250.0 - 300.0 + 60_000.0 - 70_000.0 + 4e9 - 5.0 + 6.0 + 0.75 + 1000.0;
        assert_eq!(value.expect("the executor runs"), Ok(expected));
    });
}

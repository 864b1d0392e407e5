// SPDX-License-Identifier: MIT OR Apache-2.0
//! Socket addresses: IPv4, IPv6 and Unix, in one type.

use crate::error::{check, Error, Result};
use crate::ops::Plain;
use quoit_sys as sys;
use std::ffi::{c_char, OsStr};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// An address to listen on or connect to. Reads and writes `127.0.0.1:80`, `[::1]:80`, `unix:/path` and `unix:@abstract`.
#[derive(Clone, Copy)]
pub struct Addr {
    pub(crate) raw: sys::quoit_addr,
}

/// The longest path that a socket address holds, with room for the NUL after it.
const UNIX_MAX: usize = 107;

const EMPTY: sys::quoit_addr =
    sys::quoit_addr { family: 0, port: 0, scope: 0, flowinfo: 0, len: 0, bytes: [0; 112] };

impl Addr {
    pub(crate) fn empty() -> Addr {
        Addr { raw: EMPTY }
    }

    /// The address of a Unix socket: a path of 1 to 107 bytes; a leading NUL names an abstract socket.
    pub fn unix(path: impl AsRef<Path>) -> Result<Addr> {
        let path = path.as_ref().as_os_str().as_bytes();
        let is_abstract = path.first() == Some(&0);
        if path.is_empty() || path.len() > UNIX_MAX || (!is_abstract && path.contains(&0)) {
            return Err(Error::ARGUMENT);
        }
        let mut raw = EMPTY;
        raw.family = sys::QUOIT_FAMILY_UNIX as u16;
        raw.len = path.len() as u32;
        raw.bytes[..path.len()].copy_from_slice(path);
        Ok(Addr { raw })
    }

    /// The path of a Unix socket, with a leading NUL if it is abstract; none for other families and for sockets without name.
    pub fn to_path(&self) -> Option<PathBuf> {
        let path = self.raw.bytes.get(..self.raw.len as usize)?;
        let is_unix = u32::from(self.raw.family) == sys::QUOIT_FAMILY_UNIX && !path.is_empty();
        is_unix.then(|| PathBuf::from(OsStr::from_bytes(path)))
    }

    /// The port; 0 for Unix sockets.
    pub fn port(&self) -> u16 {
        self.raw.port
    }

    /// The same as the standard library's type; none for Unix sockets.
    pub fn to_socket_addr(&self) -> Option<SocketAddr> {
        let bytes = &self.raw.bytes;
        match u32::from(self.raw.family) {
            sys::QUOIT_FAMILY_V4 => {
                let octets: [u8; 4] = bytes[..4].try_into().ok()?;
                Some(SocketAddr::new(IpAddr::V4(Ipv4Addr::from(octets)), self.raw.port))
            }
            sys::QUOIT_FAMILY_V6 => {
                let octets: [u8; 16] = bytes[..16].try_into().ok()?;
                let ip = Ipv6Addr::from(octets);
                Some(SocketAddrV6::new(ip, self.raw.port, self.raw.flowinfo, self.raw.scope).into())
            }
            _ => None,
        }
    }
}

impl From<SocketAddr> for Addr {
    fn from(from: SocketAddr) -> Addr {
        let mut raw = EMPTY;
        raw.port = from.port();
        match from {
            SocketAddr::V4(v4) => {
                raw.family = sys::QUOIT_FAMILY_V4 as u16;
                raw.len = 4;
                raw.bytes[..4].copy_from_slice(&v4.ip().octets());
            }
            SocketAddr::V6(v6) => {
                raw.family = sys::QUOIT_FAMILY_V6 as u16;
                raw.len = 16;
                raw.scope = v6.scope_id();
                raw.flowinfo = v6.flowinfo();
                raw.bytes[..16].copy_from_slice(&v6.ip().octets());
            }
        }
        Addr { raw }
    }
}

impl FromStr for Addr {
    type Err = Error;

    fn from_str(text: &str) -> Result<Addr> {
        let mut raw = EMPTY;
        let len = u32::try_from(text.len()).map_err(|_| Error::ARGUMENT)?;
        // SAFETY: text is len readable bytes and raw a writable struct; neither is kept.
        check(unsafe { sys::quoit_addr_parse(text.as_ptr().cast::<c_char>(), len, &mut raw) })?;
        Ok(Addr { raw })
    }
}

impl TryFrom<&str> for Addr {
    type Error = Error;

    fn try_from(text: &str) -> Result<Addr> {
        text.parse()
    }
}

impl TryFrom<&String> for Addr {
    type Error = Error;

    fn try_from(text: &String) -> Result<Addr> {
        text.parse()
    }
}

/// What an [`Addr`] can be made of: a text, a [`SocketAddr`] or an [`Addr`].
pub trait ToAddr {
    /// The address, or why the text is none.
    fn to_addr(self) -> Result<Addr>;
}

impl<T, E> ToAddr for T
where
    T: TryInto<Addr, Error = E>,
    E: Into<ToAddrError>,
{
    fn to_addr(self) -> Result<Addr> {
        self.try_into().map_err(|error| error.into().0)
    }
}

/// Joins the errors of the conversions that can fail and of those that cannot.
#[doc(hidden)]
pub struct ToAddrError(Error);

impl From<Error> for ToAddrError {
    fn from(error: Error) -> ToAddrError {
        ToAddrError(error)
    }
}

impl From<std::convert::Infallible> for ToAddrError {
    fn from(never: std::convert::Infallible) -> ToAddrError {
        match never {}
    }
}

impl PartialEq for Addr {
    fn eq(&self, other: &Addr) -> bool {
        self.raw.bytes() == other.raw.bytes()
    }
}

impl Eq for Addr {}

impl fmt::Display for Addr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = [0u8; 256];
        // SAFETY: raw is a valid struct and text is 256 writable bytes; neither is kept.
        let status =
            unsafe { sys::quoit_addr_text(&self.raw, text.as_mut_ptr().cast::<c_char>(), text.len() as u32) };
        let len = check(status).map_err(|_| fmt::Error)? as usize;
        f.write_str(&String::from_utf8_lossy(&text[..len.min(text.len())]))
    }
}

impl fmt::Debug for Addr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Addr({self})")
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state of a process, as its folder in `/proc` tells it.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::fs::{openat, Mode, OFlags};
use rustix::io::Errno;

/// The parts that matter.
pub(super) struct Status {
    /// Its number, as it knows itself: in a container, another one than outside.
    pub(super) own_pid: u32,
    /// Its user. `None`: it runs as two, by a set-user-ID program, say.
    pub(super) uid: Option<u32>,
    /// Its name, as it can be shown.
    pub(super) comm: String,
}

impl Status {
    pub(super) fn read(process: BorrowedFd<'_>) -> io::Result<Self> {
        let (own_pid, uid) = parse(&text(process, "status", 1 << 20)?)
            .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?;
        let comm = shown(&text(process, "comm", 64)?);
        Ok(Self { own_pid, uid, comm })
    }
}

/// The number and the user in a file `status`.
fn parse(text: &str) -> Option<(u32, Option<u32>)> {
    let words = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key))?;
        Some(line.split_ascii_whitespace().map(str::parse::<u32>))
    };
    let own_pid = words("NSpid:")
        .or_else(|| words("Pid:"))?
        .next_back()?
        .ok()?;
    let users: Vec<_> = words("Uid:")?.collect::<Result<_, _>>().ok()?;
    let uid = *users.first()?;
    let is_one = users.iter().all(|other| *other == uid);
    Some((own_pid, is_one.then_some(uid)))
}

/// A name of a process in characters that no terminal acts on or hides, and that are one word.
fn shown(name: &str) -> String {
    let name = name.strip_suffix('\n').unwrap_or(name);
    let shown = name.chars().map(|one| match one {
        ' ' => '_',
        one if one.is_ascii_graphic() => one,
        _ => '?',
    });
    match name {
        "" => "?".to_owned(),
        _ => shown.collect(),
    }
}

/// The first bytes of a file of the kernel's, as text.
fn text(process: BorrowedFd<'_>, name: &str, most: usize) -> io::Result<String> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let file = openat(process, name, flags, Mode::empty())?;
    let mut text = Vec::new();
    let mut part = [0; 4_096];
    while text.len() < most {
        match rustix::io::read(&file, &mut part) {
            Ok(0) => break,
            Ok(length) => text.extend_from_slice(&part[..length]),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_and_user_are_read() {
        let text = |nspid: &str, uid: &str| format!("Name:\tUid:\nPid:\t7\n{nspid}Uid:\t{uid}\n");
        assert_eq!(parse(&text("", "5\t5\t5\t5")), Some((7, Some(5))));
        assert_eq!(
            parse(&text("NSpid:\t7\t3\n", "0\t0\t0\t0")),
            Some((3, Some(0)))
        );
        // A set-user-ID program in each of its states.
        for two in ["5\t0\t0\t0", "5\t5\t0\t5", "0\t5\t0\t5", "5\t5\t5\t6"] {
            assert_eq!(parse(&text("", two)), Some((7, None)), "{two}");
        }
        for bad in ["", "x", "5\t-1"] {
            assert_eq!(parse(&text("", bad)), None, "{bad}");
        }
        assert_eq!(parse("Uid:\t5\t5\t5\t5\n"), None);
    }

    #[test]
    fn a_name_is_one_word_that_is_seen() {
        for (name, expected) in [
            ("train-0_a/b:1\n", "train-0_a/b:1"),
            ("a b\n", "a_b"),
            // Control characters, the right-to-left override, a zero-width space, a byte order mark,
            // a letter that looks like one of ASCII, and bytes that are no text.
            ("a\nb\x1b[2J\t\x7f\n", "a?b?[2J??"),
            ("a\u{202e}b\u{200b}\u{feff}\u{430}\u{fffd}\n", "a?b????"),
            ("\n", "?"),
            ("\u{85}\n", "?"),
        ] {
            assert_eq!(shown(name), expected, "{name:?}");
        }
    }
}

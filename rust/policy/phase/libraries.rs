// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Names of libraries of collectives, by which these are seen to be active.

/// Beginnings of the names of objects that libraries of collectives make in shared memory.
///
/// # Invariants
///
/// `text` is names of characters that a name of a file can have, each followed by a blank or, the
/// last, by zeroes: at least one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Libraries {
    text: [u8; Self::ROOM],
}

impl Libraries {
    /// Bytes of all names, separators and the end.
    pub(crate) const ROOM: usize = 64;

    /// Those of NCCL and its kin.
    pub(crate) const DEFAULT: Self = {
        let mut text = [0; Self::ROOM];
        if let Some(name) = text.first_chunk_mut() {
            *name = *b"nccl-";
        }
        // INVARIANT: One name, and zeroes.
        Self { text }
    };

    /// The names in a text, with blanks between them; `None` if there is none or no room for all,
    /// or one has a character that names of files do not have.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut this = Self {
            text: [0; Self::ROOM],
        };
        let mut at = 0usize;
        for name in text.split_ascii_whitespace() {
            let is_good = |&byte: &u8| byte.is_ascii_graphic() && byte != b'/';
            let end = at.checked_add(name.len())?;
            if !name.as_bytes().iter().all(is_good) || end >= Self::ROOM {
                return None;
            }
            if let Some(before) = at.checked_sub(1) {
                *this.text.get_mut(before)? = b' ';
            }
            this.text.get_mut(at..end)?.copy_from_slice(name.as_bytes());
            at = end.checked_add(1)?;
        }
        // INVARIANT: The last name ends before the last byte.
        (at > 0).then_some(this)
    }

    /// The names, with blanks between them.
    pub(crate) fn names(&self) -> &str {
        let length = self.text.iter().position(|&byte| byte == 0).unwrap_or(0);
        let names = self.text.get(..length).unwrap_or_default();
        core::str::from_utf8(names).unwrap_or_default()
    }

    /// The same, ended by a zero.
    pub(crate) fn bytes(&self) -> &[u8; Self::ROOM] {
        &self.text
    }
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_policy_phase_libraries))]
mod tests {
    use super::*;

    #[test]
    fn names_are_words() {
        assert_eq!(Libraries::DEFAULT.names(), "nccl-");
        assert_eq!(Libraries::parse("nccl-"), Some(Libraries::DEFAULT));
        let two = Libraries::parse("  nccl-\t oneccl_ ");
        assert_eq!(
            two.map(|two| two.bytes()[..15] == *b"nccl- oneccl_\0\0"),
            Some(true)
        );
        assert_eq!(two.as_ref().map(Libraries::names), Some("nccl- oneccl_"));
        let long = "a23456789012345678901234567890 b23456789012345678901234567890 c";
        assert_eq!(long.len(), 63);
        assert_eq!(
            Libraries::parse(long).as_ref().map(Libraries::names),
            Some(long)
        );
        for bad in ["", "  ", "a/b", "a\u{e9}", "a\0b"] {
            assert_eq!(Libraries::parse(bad), None);
        }
        assert_eq!(
            Libraries::parse("a234567890123456789012345678901 b23456789012345678901234567890 c"),
            None
        );
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names in fixed-size, NUL-terminated or NUL-padded fields.

use std::ffi::c_char;

/// The text of a `char` array up to its first NUL; bytes that are not UTF-8 are replaced.
pub(crate) fn from_chars(field: &[c_char]) -> String {
    from_bytes(bytemuck::cast_slice(field))
}

/// The text of a byte array up to its first NUL; bytes that are not UTF-8 are replaced.
pub(crate) fn from_bytes(field: &[u8]) -> String {
    let end = field.iter().position(|&byte| byte == 0);
    String::from_utf8_lossy(&field[..end.unwrap_or(field.len())]).into_owned()
}

/// `text` cut to `N` bytes and padded with NULs.
pub(crate) fn to_bytes<const N: usize>(text: &str) -> [u8; N] {
    let mut field = [0; N];
    let len = text.len().min(N);
    field[..len].copy_from_slice(&text.as_bytes()[..len]);
    field
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn unterminated_and_odd_fields_are_read() {
        assert_eq!(from_bytes(b"ab\0cd"), "ab");
        assert_eq!(from_bytes(b"abcd"), "abcd");
        assert_eq!(from_bytes(b"\xff\0"), "\u{fffd}");
        assert_eq!(from_bytes(b""), "");
    }

    proptest! {
        #[test]
        fn short_text_round_trips(text in "[a-z]{0,16}") {
            prop_assert_eq!(from_bytes(&to_bytes::<16>(&text)), text);
        }
    }
}

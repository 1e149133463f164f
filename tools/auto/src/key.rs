// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers for call sites: one for this process, and the key by which zernel keeps their history.

/// FNV-1a, 64 bits.
#[derive(Debug, Clone, Copy)]
struct Hash(u64);

impl Hash {
    const NEW: Self = Self(0xcbf2_9ce4_8422_2325);

    fn add(self, bytes: &[u8]) -> Self {
        let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        Self(bytes.iter().fold(self.0, step))
    }
}

/// The size of a copy as a power of two, rounded down: the data of another batch size takes another
/// time.
pub fn size_class(bytes: u64) -> u32 {
    bytes.checked_ilog2().map_or(0, |power| power + 1)
}

/// The number of a site in this process, never 0: the address that a call returns to, and the size
/// of the copy.
pub fn of_call(caller: usize, bytes: u64) -> u64 {
    // Addresses have 48 bits.
    let number = (caller as u64) ^ u64::from(size_class(bytes)) << 56;
    number.max(1)
}

/// The key of a site, the same in each run of a program: the name of the file that holds the call,
/// without its folder, the place in it, and the size of the copy.
pub fn of_place(file: &[u8], offset: u64, bytes: u64) -> u64 {
    let name = file.rsplit(|&byte| byte == b'/').next().unwrap_or(file);
    let hash = Hash::NEW.add(b"auto").add(name);
    hash.add(&offset.to_le_bytes())
        .add(&size_class(bytes).to_le_bytes())
        .0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_classed_by_powers_of_two() {
        let classes = [0, 1, 2, 3, 4, 4095, 4096, u64::MAX].map(size_class);
        assert_eq!(classes, [0, 1, 2, 2, 3, 12, 13, 64]);
    }

    #[test]
    fn sites_differ_by_caller_and_size() {
        let site = of_call(0x7fff_1234_5678, 4096);
        assert_eq!(site, of_call(0x7fff_1234_5678, 8191));
        assert_ne!(site, of_call(0x7fff_1234_5678, 8192));
        assert_ne!(site, of_call(0x7fff_1234_5679, 4096));
        assert_eq!(of_call(0, 0), 1);
    }

    #[test]
    fn keys_do_not_depend_on_where_a_file_is() {
        let key = of_place(b"/usr/lib/libserve.so", 0x1000, 4096);
        assert_eq!(key, of_place(b"/opt/libserve.so", 0x1000, 4100));
        assert_ne!(key, of_place(b"/usr/lib/libother.so", 0x1000, 4096));
        assert_ne!(key, of_place(b"/usr/lib/libserve.so", 0x1008, 4096));
        assert_ne!(key, of_place(b"/usr/lib/libserve.so", 0x1000, 8192));
    }
}

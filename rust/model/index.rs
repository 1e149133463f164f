// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The names of channels and TSGs within their arenas; channels and TSGs name each other.

use super::arena::index;

index!(
    /// Names a [`Channel`](super::channel::Channel).
    ChannelIx
);

index!(
    /// Names a [`Tsg`](super::tsg::Tsg).
    TsgIx
);

/// Most TSGs of a GPU.
pub(super) const TSGS: u32 = 1 << 12;

impl TsgIx {
    /// Its place among the TSGs of a GPU.
    pub(super) const fn place(self) -> u32 {
        self.0 % TSGS
    }
}

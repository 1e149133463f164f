// SPDX-License-Identifier: MIT OR Apache-2.0
//! Addresses as the GPU sees them.
//!
//! Memory of a device is memory of the host with other addresses, above those that a process can
//! have, so that a pointer of the wrong kind is an error. So has registered memory of the program.
//! Memory of `cuMemHostAlloc` has one address for both.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::status::{Result, Status};
use crate::sys::memory::{self, Pages};

/// The first address of memory of devices. Processes have none above 2^47.
pub(crate) const DEVICE: u64 = 1 << 48;
/// Added to the address of registered memory.
pub(crate) const ALIAS: u64 = (1 << 48) + (1 << 47);
/// Allocations begin at multiples of this.
const ALIGN: u64 = 512;
/// Pages of the host.
const PAGE: u64 = 4_096;

/// The kind of a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Memory of a device.
    Device,
    /// Memory of the host that was allocated here.
    Pinned,
    /// Memory of the program.
    Registered,
}

/// A range of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Range {
    /// As the GPU sees it.
    pub(crate) base: u64,
    /// In bytes.
    pub(crate) length: u64,
    /// As the CPU sees it.
    pub(crate) host: u64,
    pub(crate) kind: Kind,
    /// Handle of its context.
    pub(crate) context: u64,
    /// Its device.
    pub(crate) device: u32,
    /// A number that no other range has had.
    pub(crate) id: u64,
    /// Flags that it was made with.
    pub(crate) flags: u32,
}

impl Range {
    fn end(&self) -> u64 {
        self.base.saturating_add(self.length)
    }

    /// An address in it.
    pub(crate) fn spot(&self, address: u64) -> Spot {
        let range = self.id;
        Spot { address, range }
    }
}

/// The owner of a new range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) context: u64,
    pub(crate) device: u32,
}

/// An address as the GPU sees it, in a range that is told from a later one there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Spot {
    pub(crate) address: u64,
    /// Number of the range.
    pub(crate) range: u64,
}

/// Memory that stays mapped while this is there, if it was allocated here.
#[derive(Debug)]
pub(crate) struct Held {
    /// As the CPU sees it.
    pub(crate) host: u64,
    _pages: Option<Arc<Pages>>,
}

impl Held {
    /// Memory of the program, which keeps it mapped itself.
    pub(crate) fn of_program(host: u64) -> Self {
        Self { host, _pages: None }
    }
}

/// All ranges of the process.
#[derive(Debug, Default)]
pub(crate) struct Space {
    ranges: BTreeMap<u64, Range>,
    pages: BTreeMap<u64, Arc<Pages>>,
    /// Where the next allocation begins: no address is used twice.
    next: u64,
    /// Bytes of each device.
    used: BTreeMap<u32, u64>,
    ids: u64,
}

impl Space {
    fn add(&mut self, mut range: Range) -> Range {
        self.ids += 1;
        range.id = self.ids;
        self.ranges.insert(range.base, range);
        range
    }

    /// Allocates memory of a device that has `total` bytes.
    pub(crate) fn allocate(&mut self, owner: Owner, length: u64, total: u64) -> Result<Range> {
        if length == 0 {
            return Err(Status::INVALID_VALUE);
        }
        let rounded = length.checked_next_multiple_of(ALIGN);
        let rounded = rounded.ok_or(Status::OUT_OF_MEMORY)?;
        let used = self.used(owner.device).checked_add(rounded);
        let used = used
            .filter(|&used| used <= total)
            .ok_or(Status::OUT_OF_MEMORY)?;
        let base = DEVICE + self.next;
        let next = self.next.checked_add(rounded.next_multiple_of(PAGE) + PAGE);
        let next = next
            .filter(|&next| next < ALIAS - DEVICE)
            .ok_or(Status::OUT_OF_MEMORY)?;
        let pages = Pages::map_shared(rounded)?;
        (self.next, _) = (next, self.used.insert(owner.device, used));
        let range = self.add(Range {
            base,
            length,
            host: pages.base(),
            kind: Kind::Device,
            context: owner.context,
            device: owner.device,
            id: 0,
            flags: 0,
        });
        self.pages.insert(base, Arc::new(pages));
        Ok(range)
    }

    /// Allocates memory of the host.
    pub(crate) fn allocate_host(&mut self, owner: Owner, length: u64, flags: u32) -> Result<Range> {
        if length == 0 {
            return Err(Status::INVALID_VALUE);
        }
        let pages = Pages::map(length)?;
        let base = pages.base();
        let range = self.add(Range {
            base,
            length,
            host: base,
            kind: Kind::Pinned,
            context: owner.context,
            device: owner.device,
            id: 0,
            flags,
        });
        self.pages.insert(base, Arc::new(pages));
        Ok(range)
    }

    /// Registers memory of the program. It is pinned as a whole number of pages.
    pub(crate) fn register(
        &mut self,
        owner: Owner,
        host: u64,
        length: u64,
        flags: u32,
    ) -> Result<Range> {
        let end = host.checked_add(length).filter(|&end| end < 1 << 47);
        let end = end
            .filter(|_| host > 0 && length > 0)
            .ok_or(Status::INVALID_VALUE)?;
        let overlaps = |range: &Range| range.host < end && host < range.host + range.length;
        let is_host = |range: &&Range| range.kind != Kind::Device;
        if self.ranges.values().filter(is_host).any(overlaps) {
            return Err(Status::ALREADY_REGISTERED);
        }
        let (first, pinned) = whole_pages(host, length);
        memory::pin(first, pinned)?;
        Ok(self.add(Range {
            base: host + ALIAS,
            length,
            host,
            kind: Kind::Registered,
            context: owner.context,
            device: owner.device,
            id: 0,
            flags,
        }))
    }

    /// Ends a range that begins at an address as the GPU sees it.
    pub(crate) fn remove(&mut self, base: u64, kind: Kind) -> Result<Range> {
        let is_it = |range: &&Range| range.kind == kind;
        let range = self.ranges.get(&base).filter(is_it).copied();
        let range = range.ok_or(Status::INVALID_VALUE)?;
        self.ranges.remove(&base);
        self.pages.remove(&base);
        match kind {
            Kind::Device => {
                let used = self.used.entry(range.device).or_default();
                *used = used.saturating_sub(range.length.next_multiple_of(ALIGN));
            }
            Kind::Registered => {
                let (first, pinned) = whole_pages(range.host, range.length);
                memory::unpin(first, pinned);
            }
            Kind::Pinned => {}
        }
        Ok(range)
    }

    /// Ends all ranges of a context. Returns their numbers.
    pub(crate) fn remove_all(&mut self, context: u64) -> Vec<u64> {
        let owned = self
            .ranges
            .values()
            .filter(|range| range.context == context);
        let owned: Vec<Range> = owned.copied().collect();
        for range in &owned {
            // They were there just now.
            let _ = self.remove(range.base, range.kind);
        }
        owned.iter().map(|range| range.id).collect()
    }

    /// The range that has `length` bytes from an address on, as the GPU sees it.
    pub(crate) fn find(&self, address: u64, length: u64) -> Result<Range> {
        let found = self.ranges.range(..=address).next_back();
        let end = address.checked_add(length);
        let holds =
            |range: &&Range| address < range.end() && end.is_some_and(|end| end <= range.end());
        let found = found.map(|(_, range)| range).filter(holds);
        found.copied().ok_or(Status::INVALID_VALUE)
    }

    /// The registered or pinned range of an address of the CPU.
    pub(crate) fn find_host(&self, host: u64) -> Result<Range> {
        let alias = host.checked_add(ALIAS).ok_or(Status::INVALID_VALUE)?;
        let registered = self.find(alias, 1);
        registered.or_else(|_| {
            let range = self.find(host, 1)?;
            match range.kind {
                Kind::Pinned => Ok(range),
                _ => Err(Status::INVALID_VALUE),
            }
        })
    }

    /// The memory of a spot, `length` bytes, if its range is still there.
    pub(crate) fn hold(&self, spot: Spot, length: u64) -> Result<Held> {
        let found = self.find(spot.address, length).ok();
        let range = found.filter(|range| range.id == spot.range);
        let range = range.ok_or(Status::INVALID_VALUE)?;
        Ok(self.hold_in(&range, spot.address))
    }

    /// The memory that the GPU sees at an address, `length` bytes.
    pub(crate) fn hold_at(&self, address: u64, length: u64) -> Result<Held> {
        let range = self.find(address, length)?;
        Ok(self.hold_in(&range, address))
    }

    fn hold_in(&self, range: &Range, address: u64) -> Held {
        Held {
            host: range.host + (address - range.base),
            _pages: self.pages.get(&range.base).cloned(),
        }
    }

    /// Maps memory of a device once more: whole pages. The mapping stays when the memory is freed.
    pub(crate) fn map_again(&self, address: u64, length: u64) -> Result<Pages> {
        let range = self.find(address, length)?;
        let pages = self.pages.get(&range.base);
        let is_device = |_: &&Arc<Pages>| range.kind == Kind::Device;
        let pages = pages.filter(is_device).ok_or(Status::INVALID_VALUE)?;
        pages.again(address - range.base, length)
    }

    /// The value of a word of 4 or 8 bytes.
    pub(crate) fn load(&self, spot: Spot, is_wide: bool) -> Result<u64> {
        let held = self.hold(spot, if is_wide { 8 } else { 4 })?;
        match is_wide {
            true => memory::read_one::<u64>(held.host),
            false => memory::read_one::<u32>(held.host).map(u64::from),
        }
    }

    /// Stores to such a word. The range does not end meanwhile, which takes this space for itself.
    pub(crate) fn store(&mut self, spot: Spot, value: u64, is_wide: bool) -> Result<()> {
        let held = self.hold(spot, if is_wide { 8 } else { 4 })?;
        memory::store_word(held.host, value, is_wide)
    }

    /// Bytes in use of a device.
    pub(crate) fn used(&self, device: u32) -> u64 {
        self.used.get(&device).copied().unwrap_or(0)
    }
}

/// The pages that hold some bytes: first address and length.
pub(crate) fn whole_pages(base: u64, length: u64) -> (u64, u64) {
    let first = base - base % PAGE;
    (first, (base + length - first).next_multiple_of(PAGE))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: Owner = Owner {
        context: 16,
        device: 0,
    };

    #[test]
    fn memory_of_a_device_has_other_addresses() {
        let mut space = Space::default();
        let one = space.allocate(OWNER, 100, 4_096).unwrap();
        let two = space.allocate(OWNER, 100, 4_096).unwrap();
        assert!(one.base >= DEVICE && one.base % ALIGN == 0 && two.base > one.base + 100);
        assert_eq!(space.hold_at(one.base + 5, 95).unwrap().host, one.host + 5);
        assert!(space.hold_at(one.base + 5, 96).is_err());
        assert_eq!(space.find(one.base + 100, 0), Err(Status::INVALID_VALUE));
        assert_eq!(space.find(one.host, 1), Err(Status::INVALID_VALUE));
        assert_eq!(space.find_host(one.host), Err(Status::INVALID_VALUE));
        assert_eq!(space.find(u64::MAX, 1), Err(Status::INVALID_VALUE));
        assert_eq!(space.used(0), 1_024);
        assert_eq!(
            space.remove(one.base + 1, Kind::Device),
            Err(Status::INVALID_VALUE)
        );
        space.remove(one.base, Kind::Device).unwrap();
        assert_eq!(space.find(one.base, 1), Err(Status::INVALID_VALUE));
        assert_eq!(
            space.remove(one.base, Kind::Device),
            Err(Status::INVALID_VALUE)
        );
        let three = space.allocate(OWNER, 100, 4_096).unwrap();
        assert!(three.base > two.base, "no address is used twice");
    }

    #[test]
    fn memory_that_is_held_stays() {
        let mut space = Space::default();
        let range = space.allocate_host(OWNER, 8, 0).unwrap();
        let spot = range.spot(range.base + 4);
        space.store(spot, 7, false).unwrap();
        assert_eq!(space.load(spot, false), Ok(7));
        assert_eq!(space.load(spot, true), Err(Status::INVALID_VALUE));
        let held = space.hold(spot, 4).unwrap();
        space.remove(range.base, Kind::Pinned).unwrap();
        assert_eq!(memory::read_one::<u32>(held.host), Ok(7));
        assert!(space.hold(spot, 4).is_err());
        drop(held);
        assert!(memory::read_one::<u32>(spot.address).is_err());
        // A later range in the same place is another one.
        let other = Range { id: 99, ..range };
        space.ranges.insert(other.base, other);
        assert_eq!(space.store(spot, 1, false), Err(Status::INVALID_VALUE));
    }

    #[test]
    fn memory_of_a_device_is_mapped_again() {
        let mut space = Space::default();
        let range = space.allocate(OWNER, 3 * PAGE, 1 << 20).unwrap();
        let spot = range.spot(range.base + PAGE);
        let again = space.map_again(spot.address, PAGE).unwrap();
        memory::store_word(again.base(), 7, false).unwrap();
        assert_eq!(space.load(spot, false), Ok(7));
        assert!(space.map_again(spot.address, 3 * PAGE).is_err());
        let pinned = space.allocate_host(OWNER, PAGE, 0).unwrap();
        assert!(space.map_again(pinned.base, PAGE).is_err());
        space.remove(range.base, Kind::Device).unwrap();
        assert!(space.map_again(spot.address, PAGE).is_err());
        memory::store_word(again.base(), 8, false).unwrap();
    }

    #[test]
    fn a_device_has_an_end() {
        let mut space = Space::default();
        assert_eq!(space.allocate(OWNER, 0, 4_096), Err(Status::INVALID_VALUE));
        assert_eq!(
            space.allocate(OWNER, 4_097, 4_096),
            Err(Status::OUT_OF_MEMORY)
        );
        assert_eq!(
            space.allocate(OWNER, u64::MAX, u64::MAX),
            Err(Status::OUT_OF_MEMORY)
        );
        let all = space.allocate(OWNER, 4_096, 4_096).unwrap();
        assert_eq!(space.allocate(OWNER, 1, 4_096), Err(Status::OUT_OF_MEMORY));
        let other = Owner { device: 1, ..OWNER };
        space.allocate(other, 1, 4_096).unwrap();
        space.remove(all.base, Kind::Device).unwrap();
        space.allocate(OWNER, 1, 4_096).unwrap();
        space.remove_all(OWNER.context);
        assert_eq!((space.used(0), space.used(1)), (0, 0));
    }

    #[test]
    fn memory_of_the_program_is_registered_once() {
        let mut space = Space::default();
        let pages = Pages::map(2 * PAGE).unwrap();
        let base = pages.base();
        let range = space.register(OWNER, base + 8, 100, 3).unwrap();
        assert_eq!((range.base, range.host), (base + 8 + ALIAS, base + 8));
        assert_eq!(space.find_host(base + 107), Ok(range));
        assert_eq!(space.find_host(base + 108), Err(Status::INVALID_VALUE));
        assert_eq!(space.hold_at(range.base + 4, 4).unwrap().host, base + 12);
        let again = space.register(OWNER, base + 107, 8, 0);
        assert_eq!(again, Err(Status::ALREADY_REGISTERED));
        space.register(OWNER, base + PAGE, 8, 0).unwrap();
        space.remove(range.base, Kind::Registered).unwrap();
        space.register(OWNER, base, PAGE, 0).unwrap();
        for (host, length) in [(0, 8), (64, 8), (base, 0), (1 << 47, 8), (u64::MAX, 8)] {
            assert_eq!(
                space.register(OWNER, host, length, 0),
                Err(Status::INVALID_VALUE)
            );
        }
    }

    #[test]
    fn pinned_memory_has_one_address() {
        let mut space = Space::default();
        let range = space.allocate_host(OWNER, 10, 1).unwrap();
        assert_eq!(range.base, range.host);
        assert_eq!(space.find_host(range.host + 9), Ok(range));
        let registered = space.register(OWNER, range.host, 4, 0);
        assert_eq!(registered, Err(Status::ALREADY_REGISTERED));
        assert_eq!(
            space.remove(range.base, Kind::Device),
            Err(Status::INVALID_VALUE)
        );
        space.remove(range.base, Kind::Pinned).unwrap();
    }
}

// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Spreads the timers of a user, so that few of them expire together.
//!
//! Time is cut into *windows*. A timer is counted in the window in which it expires, and one that
//! meets a full window goes to a later one, at the same place in it. The search takes a bounded
//! number of looks: the next window, then one of the two behind it, one of the four behind these,
//! and so on. One that meets none with room goes to any of 8,192 windows and is not counted. A timer
//! that is set to another time before it expires gives its place back.
//!
//! A *cell* counts the timers of a window, and serves every 4,096th window. It belongs to one of
//! them until that is over.

use super::units::Ns;

/// A window is `2^WINDOW_BITS` ns: 65.5 µs.
pub(crate) const WINDOW_BITS: u32 = 16;

/// Most timers of a window. One takes about 1,300 instructions with its interrupt; those of the end
/// of a window and of the begin of the next one may come together. A user's timers so take 6 % of
/// a CPU that does an instruction in a nanosecond: with more, the timers of others come late.
pub(crate) const MOST: u32 = 3;

/// A cell serves every `2^CELL_BITS`th window. There is room for 12,288 timers before a cell serves
/// another window, 268 ms later.
const CELL_BITS: u32 = 12;

/// Cells of a user.
pub(crate) const CELLS: usize = 1 << CELL_BITS;

/// Bits of a cell that count.
const COUNT_BITS: u32 = 4;

/// The laps of a cell wrap after 834 days.
const LAPS: u32 = u32::MAX >> COUNT_BITS;

/// A window that is further ahead, 78 hours, counts as one of the past: a cell that was not used for
/// months must not look like one of the future.
const FAR: u32 = 1 << 20;

/// Looks at windows: some that are further and further away, and more at the furthest ones.
const LOOKS: u32 = CELL_BITS + 1 + 8;

/// Bits by which the numbers of looks are apart.
const APART: u32 = 5;

/// A window of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Window(u64);

impl Window {
    #[inline]
    fn of(at: Ns) -> Self {
        Self(at.0 >> WINDOW_BITS)
    }

    #[inline]
    fn cell(self) -> usize {
        (self.0 as usize) & (CELLS - 1)
    }

    #[inline]
    fn lap(self) -> u32 {
        ((self.0 >> CELL_BITS) as u32) & LAPS
    }

    /// The cell with one more timer of this window, from its value before. `None`: it is full, or
    /// another window's that is not over at `now`.
    #[inline]
    fn take(self, cell: u32, now: Self) -> Option<u32> {
        let mine = self.lap() << COUNT_BITS;
        let count = cell ^ mine;
        if count < MOST {
            return Some(cell + 1);
        }
        let is_mine = count >> COUNT_BITS == 0;
        let was_used = cell & ((1 << COUNT_BITS) - 1) != 0;
        if is_mine || was_used && self.is_live(cell >> COUNT_BITS, now) {
            return None;
        }
        Some(mine + 1)
    }

    /// The cell with one timer of this window less. `None`: it counts none.
    #[inline]
    fn give_back(self, cell: u32) -> Option<u32> {
        let count = cell ^ self.lap() << COUNT_BITS;
        (1..1 << COUNT_BITS).contains(&count).then(|| cell - 1)
    }

    /// True if the window of this one's cell in another lap is not over.
    fn is_live(self, lap: u32, now: Self) -> bool {
        let ahead = lap.wrapping_sub(now.lap()) & LAPS;
        match ahead {
            0 => self.cell() >= now.cell(),
            _ => ahead <= FAR,
        }
    }
}

/// The cells of a user.
pub(crate) trait Cells {
    /// Has a cell follow `next`, a function of its value. Returns whether that gave one.
    fn change(&mut self, cell: usize, next: impl Fn(u32) -> Option<u32>) -> bool;
}

/// The place of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// When it expires.
    pub(crate) at: Ns,
    /// It is counted there.
    pub(crate) is_counted: bool,
}

/// The place of a timer that is wanted `at` then. `chance` gives a number that nobody can guess, so
/// that nobody can have timers meet.
pub(crate) fn place(
    cells: &mut impl Cells,
    at: Ns,
    now: Ns,
    chance: impl FnOnce() -> u64,
) -> Place {
    let (wanted, now) = (Window::of(at), Window::of(now));
    let is_counted = cells.change(wanted.cell(), |cell| wanted.take(cell, now));
    match is_counted {
        true => Place { at, is_counted },
        false => further(cells, at, now, chance()),
    }
}

#[cold]
fn further(cells: &mut impl Cells, at: Ns, now: Window, chance: u64) -> Place {
    let (mut distance, mut is_counted) = (0, false);
    for look in 1..LOOKS {
        let width = 1u32 << (look - 1).min(CELL_BITS - 1);
        let spot = chance.rotate_left(APART * look) as u32;
        distance = u64::from(width + (spot & (width - 1)));
        let window = Window(Window::of(at).0.saturating_add(distance));
        is_counted = cells.change(window.cell(), |cell| window.take(cell, now));
        if is_counted {
            break;
        }
    }
    if !is_counted {
        // A user has more slots than there is room for, and some may be wanted so far ahead that
        // cells serve no other windows. Any of so many windows that few meet there.
        distance = chance % (2 * CELLS as u64) + CELLS as u64 / 2;
    }
    Place {
        at: Ns(at.0.saturating_add(distance << WINDOW_BITS)),
        is_counted,
    }
}

/// A timer that was counted for this time is set to another one before it has expired.
pub(crate) fn give_back(cells: &mut impl Cells, at: Ns) {
    let window = Window::of(at);
    cells.change(window.cell(), |cell| window.give_back(cell));
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_policy_spread))]
mod tests {
    use super::*;

    const WIDTH: u64 = 1 << WINDOW_BITS;
    const LAP: u64 = WIDTH << CELL_BITS;
    const NOW: u64 = 7 * LAP + 1_000 * WIDTH + 17;

    /// The cells of the windows from `NOW` on: any other one is full.
    struct Few([u32; 64]);

    impl Cells for Few {
        fn change(&mut self, cell: usize, next: impl Fn(u32) -> Option<u32>) -> bool {
            let cell = self
                .0
                .get_mut(cell.wrapping_sub(Window::of(Ns(NOW)).cell()));
            cell.is_some_and(|cell| next(*cell).map(|next| *cell = next).is_some())
        }
    }

    impl Few {
        fn new() -> Self {
            Self([0; 64])
        }

        fn place(&mut self, at: u64, now: u64, chance: u64) -> u64 {
            place(self, Ns(at), Ns(now), || chance).at.0
        }
    }

    /// No room, and the looks at it.
    struct Full(u32);

    impl Cells for Full {
        fn change(&mut self, _: usize, _: impl Fn(u32) -> Option<u32>) -> bool {
            self.0 += 1;
            false
        }
    }

    #[test]
    fn a_few_come_when_they_are_wanted() {
        let mut cells = Few::new();
        for _ in 0..MOST {
            assert_eq!(cells.place(NOW + 5, NOW, 0), NOW + 5);
        }
        // Neither those before nor those behind count.
        assert_eq!(cells.place(NOW + WIDTH, NOW, 0), NOW + WIDTH);
        assert_eq!(cells.place(NOW + 2 * WIDTH, NOW, 0), NOW + 2 * WIDTH);
    }

    #[test]
    fn many_go_to_windows_further_and_further_away() {
        // Three quarters of the room.
        const TIMERS: u32 = 48 * MOST;
        let mut cells = Few::new();
        let mut windows = [0; 64];
        for timer in 0..TIMERS {
            let at = cells.place(
                NOW,
                NOW,
                u64::from(timer).wrapping_mul(0x9e37_79b9_7f4a_7c15),
            );
            assert_eq!((at - NOW) % WIDTH, 0);
            if let Some(count) = windows.get_mut(((at - NOW) / WIDTH) as usize) {
                *count += 1;
            }
        }
        assert_eq!(windows.iter().sum::<u32>(), TIMERS);
        for count in windows {
            assert!(count <= MOST);
        }
        // Most of the near windows are in use: nobody waits for longer than need be.
        let near = windows.iter().take(32).sum::<u32>();
        assert!(near >= 32 * MOST * 3 / 4);
    }

    #[test]
    fn a_cell_serves_another_window_when_the_one_before_is_over() {
        let mut cells = Few::new();
        for _ in 0..MOST {
            cells.place(NOW + WIDTH, NOW, 0);
        }
        let next = NOW + WIDTH + LAP;
        // Not before, also of a window between both.
        assert!(cells.place(next, NOW, 0) > next);
        assert!(cells.place(next, NOW + WIDTH, 0) > next);
        assert_eq!(cells.place(next, NOW + 2 * WIDTH, 0), next);
        // It has forgotten the first one.
        assert!(cells.place(NOW + WIDTH, NOW, 0) > NOW + WIDTH);
    }

    #[test]
    fn one_that_is_set_anew_gives_its_place_back() {
        let mut cells = Few::new();
        for _ in 0..10 * MOST {
            assert_eq!(cells.place(NOW + 5, NOW, 0), NOW + 5);
            give_back(&mut cells, Ns(NOW + 5));
        }
        for _ in 0..MOST {
            cells.place(NOW, NOW, 0);
        }
        assert!(cells.place(NOW, NOW, 0) > NOW);
        // Neither another window of the cell nor one without timers has any to give back.
        give_back(&mut cells, Ns(NOW + LAP));
        assert!(cells.place(NOW, NOW, 0) > NOW);
        let before = cells.0;
        give_back(&mut cells, Ns(NOW + 60 * WIDTH));
        assert_eq!(cells.0, before);
    }

    #[test]
    fn laps_wrap() {
        let end = u64::from(LAPS) * LAP + NOW % LAP;
        let mut cells = Few::new();
        for _ in 0..MOST {
            assert_eq!(cells.place(end, end, 0), end);
        }
        assert!(cells.place(end, end, 0) > end);
        assert_eq!(cells.place(end + LAP, end + WIDTH, 0), end + LAP);
        assert!(cells.place(end, end, 0) > end);
    }

    #[test]
    fn a_cell_of_long_ago_is_free() {
        for days in [30, 200, 420, 800] {
            let later = NOW + days * 86_400_000_000_000 / LAP * LAP;
            let mut cells = Few::new();
            // Never used, and used once.
            assert_eq!(cells.place(later, later, 0), later);
            let mut cells = Few::new();
            cells.place(NOW, NOW, 0);
            assert_eq!(cells.place(later, later, 0), later);
        }
    }

    #[test]
    fn without_any_room_the_search_ends() {
        let mut full = Full(0);
        let place = place(&mut full, Ns(NOW), Ns(NOW), || 12_345);
        assert_eq!(full.0, LOOKS);
        assert!(!place.is_counted);
        assert!(place.at.0 - NOW >= LAP / 2);
        assert!(place.at.0 - NOW < 5 * LAP / 2);
    }
}

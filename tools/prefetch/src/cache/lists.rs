// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lists of entries by their numbers: each entry is in at most one, leaves it without knowing which
//! that is, and one list is put behind another in one step.

/// The ends of a list, or the neighbours of a member.
#[derive(Debug, Clone, Copy)]
struct Link {
    before: u32,
    behind: u32,
}

/// A list: a link of its own, between the last member and the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct List(u32);

/// All lists of a cache.
#[derive(Debug)]
pub struct Lists {
    /// Those of entries, and of lists beyond.
    links: Vec<Link>,
    /// Places of lists that ended.
    free: Vec<u32>,
    entries: u32,
}

impl Lists {
    /// Room for this many entries.
    pub fn new(entries: u32) -> Self {
        Self {
            links: (0..entries).map(Self::alone).collect(),
            free: Vec::new(),
            entries,
        }
    }

    fn alone(at: u32) -> Link {
        Link {
            before: at,
            behind: at,
        }
    }

    fn link(&mut self, at: u32) -> &mut Link {
        &mut self.links[at as usize]
    }

    /// A list without members.
    pub fn create(&mut self) -> List {
        let at = self.free.pop().unwrap_or_else(|| {
            let at = self.links.len() as u32;
            self.links.push(Self::alone(at));
            at
        });
        List(at)
    }

    /// Ends a list whose members have left.
    pub fn end(&mut self, list: List) {
        debug_assert!(self.first(list).is_none(), "a list with members");
        self.free.push(list.0);
    }

    /// The first member.
    pub fn first(&self, list: List) -> Option<u32> {
        let first = self.links[list.0 as usize].behind;
        (first != list.0).then_some(first)
    }

    /// Takes an entry out of the list that it is in, if it is in one.
    pub fn leave(&mut self, entry: u32) {
        debug_assert!(entry < self.entries, "no entry");
        let Link { before, behind } = *self.link(entry);
        self.link(before).behind = behind;
        self.link(behind).before = before;
        *self.link(entry) = Self::alone(entry);
    }

    /// Puts an entry behind the last member.
    pub fn push(&mut self, list: List, entry: u32) {
        self.leave(entry);
        let last = self.link(list.0).before;
        *self.link(entry) = Link {
            before: last,
            behind: list.0,
        };
        self.link(last).behind = entry;
        self.link(list.0).before = entry;
    }

    /// Puts all members of a list behind the last one of another.
    pub fn append(&mut self, list: List, to: List) {
        let Link {
            before: last,
            behind: first,
        } = *self.link(list.0);
        if first == list.0 {
            return;
        }
        let end = self.link(to.0).before;
        self.link(end).behind = first;
        self.link(first).before = end;
        self.link(last).behind = to.0;
        self.link(to.0).before = last;
        *self.link(list.0) = Self::alone(list.0);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn members(lists: &Lists, list: List) -> Vec<u32> {
        let mut all = Vec::new();
        let mut at = lists.links[list.0 as usize].behind;
        while at != list.0 {
            all.push(at);
            at = lists.links[at as usize].behind;
        }
        all
    }

    #[test]
    fn entries_leave_without_their_list() {
        let mut lists = Lists::new(5);
        let (a, b) = (lists.create(), lists.create());
        for entry in 0..5 {
            lists.push(a, entry);
        }
        lists.leave(2);
        lists.leave(2);
        lists.push(b, 0);
        assert_eq!(members(&lists, a), [1, 3, 4]);
        assert_eq!(members(&lists, b), [0]);
        lists.append(a, b);
        assert_eq!(members(&lists, a), [0; 0]);
        assert_eq!(members(&lists, b), [0, 1, 3, 4]);
        lists.append(a, b);
        lists.leave(4);
        lists.push(a, 4);
        lists.append(b, a);
        assert_eq!(members(&lists, a), [4, 0, 1, 3]);
        assert_eq!(lists.first(a), Some(4));
        lists.end(b);
        assert_eq!(lists.create(), b);
    }
}

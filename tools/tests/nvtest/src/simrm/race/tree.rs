// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state of the resource manager after each call, as far as one thread alone decides it.

use std::collections::{BTreeMap, BTreeSet};

use crate::rm::abi::engine;
use crate::rm::{Handle, Status};

/// Kinds of objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Root,
    Device,
    Subdevice,
    Vaspace,
    Tsg,
    Channel,
    Engine,
}

/// Number of a TSG or address space, whatever handles it has.
pub type Id = u64;

/// An object of a client.
#[derive(Debug, Clone)]
pub struct Object {
    pub kind: Kind,
    parent: Handle,
    /// The GPU that it is on.
    pub gpu: u32,
    /// The group that it stands for or is part of.
    pub tsg: Id,
    /// The address space that it stands for or uses.
    vas: Id,
    /// The object whose end is its own.
    depends: Handle,
    /// True if the resource behind it is gone; the handle is not.
    pub lost: bool,
    order: u64,
}

/// A TSG.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    pub gpu: u32,
    pub engine: u32,
    pub slice_us: u64,
    pub compute: bool,
    pub channels: u32,
    pub handles: BTreeSet<(Handle, Handle)>,
}

/// The objects of some clients between which one thread duplicates.
#[derive(Debug, Default)]
pub struct Tree {
    pub clients: BTreeMap<Handle, BTreeMap<Handle, Object>>,
    pub groups: BTreeMap<Id, Group>,
    next: Id,
}

const OK: Status = Status::OK;

impl Tree {
    fn next(&mut self) -> Id {
        self.next += 1;
        self.next
    }

    /// A client was made.
    pub fn add_client(&mut self, client: Handle) {
        let order = self.next();
        let root = Object {
            kind: Kind::Root,
            parent: Handle::NONE,
            gpu: u32::MAX,
            tsg: 0,
            vas: 0,
            depends: Handle::NONE,
            lost: false,
            order,
        };
        self.clients
            .insert(client, BTreeMap::from([(client, root)]));
    }

    /// The object of that handle.
    pub fn get(&self, client: Handle, object: Handle) -> Option<&Object> {
        self.clients.get(&client)?.get(&object)
    }

    /// The expected answer to an allocation.
    pub fn may_add(&self, client: Handle, parent: Handle, wish: Handle, kind: Kind) -> Status {
        if wish == client {
            return Status::INVALID_OBJECT_PARENT;
        }
        let Some(above) = self.get(client, parent) else {
            return Status::OBJECT_NOT_FOUND;
        };
        let fits = matches!(
            (kind, above.kind),
            (Kind::Device, Kind::Root)
                | (Kind::Subdevice | Kind::Vaspace | Kind::Tsg, Kind::Device)
                | (Kind::Vaspace, Kind::Subdevice)
                | (Kind::Channel, Kind::Tsg | Kind::Device)
                | (Kind::Engine, Kind::Channel)
        );
        if !fits {
            return Status::INVALID_OBJECT_PARENT;
        }
        if above.lost {
            return Status::RESOURCE_LOST;
        }
        if wish != Handle::NONE && self.get(client, wish).is_some() {
            return Status::INSERT_DUPLICATE_NAME;
        }
        // A channel without a group needs an engine, and none is ever named here.
        if kind == Kind::Channel && above.kind == Kind::Device {
            return Status::INVALID_ARGUMENT;
        }
        OK
    }

    /// The expected answer to a TSG of handle `wish` that is to use this address space and engine.
    pub fn may_use(&self, client: Handle, wish: Handle, vaspace: Handle, engine: u32) -> Status {
        if !matches!(engine, engine::GR0 | engine::COPY0) {
            return Status::INVALID_ARGUMENT;
        }
        if vaspace == Handle::NONE {
            return OK;
        }
        if vaspace == wish {
            // It has its handle already when it looks for the address space.
            return Status::INVALID_OBJECT_HANDLE;
        }
        match self.get(client, vaspace) {
            None => Status::OBJECT_NOT_FOUND,
            Some(space) if space.kind != Kind::Vaspace => Status::INVALID_OBJECT_HANDLE,
            Some(space) if space.lost => Status::RESOURCE_LOST,
            Some(_) => OK,
        }
    }

    /// An object was made that is no TSG. `gpu` matters for a device only.
    pub fn add(&mut self, client: Handle, parent: Handle, object: Handle, kind: Kind, gpu: u32) {
        let order = self.next();
        let above = self.clients[&client][&parent].clone();
        let mut new = Object {
            kind,
            parent,
            gpu: if kind == Kind::Device { gpu } else { above.gpu },
            tsg: 0,
            vas: 0,
            depends: Handle::NONE,
            lost: false,
            order,
        };
        match kind {
            Kind::Vaspace => new.vas = order,
            Kind::Channel => {
                new.tsg = above.tsg;
                if let Some(group) = self.groups.get_mut(&above.tsg) {
                    group.channels += 1;
                }
            }
            Kind::Engine => {
                if let Some(group) = self.groups.get_mut(&above.tsg) {
                    group.compute = true;
                }
            }
            _ => {}
        }
        self.put(client, object, new);
    }

    /// A TSG was made.
    pub fn add_tsg(
        &mut self,
        client: Handle,
        parent: Handle,
        object: Handle,
        vaspace: Handle,
        engine: u32,
    ) {
        let id = self.next();
        let gpu = self.clients[&client][&parent].gpu;
        let new = Object {
            kind: Kind::Tsg,
            parent,
            gpu,
            tsg: id,
            vas: self.get(client, vaspace).map_or(0, |space| space.vas),
            depends: vaspace,
            lost: false,
            order: id,
        };
        let group = Group {
            gpu,
            engine,
            slice_us: crate::lab::ORIGINAL_US,
            compute: engine == engine::GR0,
            channels: 0,
            handles: BTreeSet::from([(client, object)]),
        };
        self.groups.insert(id, group);
        self.put(client, object, new);
    }

    /// The expected answer to a duplication.
    pub fn may_dup(
        &self,
        client: Handle,
        parent: Handle,
        wish: Handle,
        from: Handle,
        source: Handle,
    ) -> Status {
        let Some(source) = self.get(from, source) else {
            return Status::OBJECT_NOT_FOUND;
        };
        if source.lost {
            return Status::RESOURCE_LOST;
        }
        let Some(above) = self.get(client, parent) else {
            return Status::OBJECT_NOT_FOUND;
        };
        if !matches!(source.kind, Kind::Tsg | Kind::Vaspace) {
            return Status::INVALID_ARGUMENT;
        }
        if above.lost {
            return Status::RESOURCE_LOST;
        }
        if above.gpu != source.gpu || source.kind == Kind::Tsg && above.kind != Kind::Device {
            return Status::INVALID_OBJECT_PARENT;
        }
        if wish == client {
            return Status::INVALID_OBJECT_HANDLE;
        }
        if wish != Handle::NONE && self.get(client, wish).is_some() {
            return Status::INSERT_DUPLICATE_NAME;
        }
        OK
    }

    /// An object was duplicated.
    pub fn dup(
        &mut self,
        client: Handle,
        parent: Handle,
        object: Handle,
        from: Handle,
        source: Handle,
    ) {
        let order = self.next();
        let source = self.clients[&from][&source].clone();
        let mut new = Object {
            parent,
            depends: Handle::NONE,
            order,
            ..source
        };
        if new.kind == Kind::Tsg {
            // It hangs on the same address space, if that has a handle beside it.
            let beside = self.clients[&client]
                .iter()
                .filter(|(_, o)| o.kind == Kind::Vaspace && o.parent == parent && !o.lost)
                .filter(|(_, o)| o.vas == new.vas)
                .min_by_key(|(_, o)| o.order);
            new.depends = beside.map_or(Handle::NONE, |(handle, _)| *handle);
            if let Some(group) = self.groups.get_mut(&new.tsg) {
                group.handles.insert((client, object));
            }
        }
        self.put(client, object, new);
    }

    fn put(&mut self, client: Handle, handle: Handle, object: Object) {
        let objects = self.clients.get_mut(&client);
        objects
            .expect("a client of the tree")
            .insert(handle, object);
    }

    /// An object was freed: all below it is gone, and what hangs on any of that is lost.
    pub fn free(&mut self, client: Handle, object: Handle) {
        if self.get(client, object).is_none() {
            return;
        }
        let below = self.with_children(client, object);
        let mut ends = below.clone();
        loop {
            let more: Vec<_> = self.clients[&client]
                .iter()
                .filter(|(handle, o)| {
                    !ends.contains(*handle) && !o.lost && ends.contains(&o.depends)
                })
                .map(|(handle, _)| *handle)
                .collect();
            if more.is_empty() {
                break;
            }
            for handle in more {
                ends.extend(self.with_children(client, handle));
            }
        }
        for handle in &ends {
            self.lose(client, *handle);
        }
        if client == object {
            self.clients.remove(&client);
        } else if let Some(objects) = self.clients.get_mut(&client) {
            objects.retain(|handle, _| !below.contains(handle));
        }
    }

    fn with_children(&self, client: Handle, object: Handle) -> BTreeSet<Handle> {
        let objects = &self.clients[&client];
        let mut found = BTreeSet::from([object]);
        loop {
            let before = found.len();
            found.extend(
                objects
                    .iter()
                    .filter(|(_, o)| found.contains(&o.parent))
                    .map(|(handle, _)| *handle)
                    .collect::<Vec<_>>(),
            );
            if found.len() == before {
                return found;
            }
        }
    }

    fn lose(&mut self, client: Handle, handle: Handle) {
        let objects = self.clients.get_mut(&client).expect("a client of the tree");
        let Some(object) = objects.get_mut(&handle) else {
            return;
        };
        if std::mem::replace(&mut object.lost, true) {
            return;
        }
        object.depends = Handle::NONE;
        let (kind, id) = (object.kind, object.tsg);
        let Some(group) = self.groups.get_mut(&id) else {
            return;
        };
        match kind {
            Kind::Channel => group.channels -= 1,
            Kind::Tsg => {
                group.handles.remove(&(client, handle));
                if group.handles.is_empty() {
                    self.groups.remove(&id);
                }
            }
            _ => {}
        }
    }

    /// The number of objects of a kind that have a resource.
    pub fn count(&self, kind: Kind) -> u64 {
        let objects = self.clients.values().flat_map(BTreeMap::values);
        objects.filter(|o| o.kind == kind && !o.lost).count() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENT: Handle = Handle(1);
    const OTHER: Handle = Handle(2);
    const DEVICE: Handle = Handle(10);
    const SPACE: Handle = Handle(11);
    const TSG: Handle = Handle(12);
    const CHANNEL: Handle = Handle(13);

    fn tree() -> Tree {
        let mut tree = Tree::default();
        for client in [CLIENT, OTHER] {
            tree.add_client(client);
            tree.add(client, client, DEVICE, Kind::Device, 0);
        }
        tree.add(CLIENT, DEVICE, SPACE, Kind::Vaspace, 0);
        tree.add_tsg(CLIENT, DEVICE, TSG, SPACE, engine::GR0);
        tree.add(CLIENT, TSG, CHANNEL, Kind::Channel, 0);
        tree
    }

    #[test]
    fn what_hangs_on_an_address_space_is_lost_with_it() {
        let mut tree = tree();
        tree.free(CLIENT, SPACE);
        assert!(tree.groups.is_empty());
        assert!(tree.get(CLIENT, TSG).unwrap().lost);
        assert!(tree.get(CLIENT, CHANNEL).unwrap().lost);
        assert!(tree.get(CLIENT, SPACE).is_none());
        let answer = tree.may_add(CLIENT, TSG, Handle(50), Kind::Channel);
        assert_eq!(answer, Status::RESOURCE_LOST);
        tree.free(CLIENT, TSG);
        assert!(tree.get(CLIENT, CHANNEL).is_none());
    }

    #[test]
    fn a_duplicate_keeps_the_group_but_not_its_channels() {
        let mut tree = tree();
        tree.dup(OTHER, DEVICE, Handle(99), CLIENT, TSG);
        tree.free(CLIENT, CLIENT);
        assert_eq!(tree.groups.len(), 1);
        let group = tree.groups.values().next().unwrap();
        assert_eq!(group.channels, 0);
        assert_eq!(group.handles, BTreeSet::from([(OTHER, Handle(99))]));
        tree.free(OTHER, DEVICE);
        assert!(tree.groups.is_empty());
        assert_eq!(tree.count(Kind::Device), 0);
    }

    #[test]
    fn handles_are_taken_once() {
        let tree = tree();
        let answer = tree.may_add(CLIENT, DEVICE, SPACE, Kind::Tsg);
        assert_eq!(answer, Status::INSERT_DUPLICATE_NAME);
        assert_eq!(
            tree.may_use(CLIENT, Handle(50), CHANNEL, 1),
            Status::INVALID_OBJECT_HANDLE
        );
        assert_eq!(
            tree.may_use(CLIENT, Handle(50), Handle(77), 1),
            Status::OBJECT_NOT_FOUND
        );
    }
}

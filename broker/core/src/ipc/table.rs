//! Objects of one kind, found by key and used by id.

use super::access::{Actor, Permissions};
use super::{NOBODYS, now};
use nix::libc;
use rustix::io::{self, Errno};
use rustix::rand::{GetRandomFlags, getrandom};
use std::collections::HashMap;

/// Most objects of a kind at a time: the whole system has 4096 segments (shmget(2)).
pub(super) const OBJECTS_MAX: usize = 1024;
/// The key of an object that is found by its id alone.
pub(super) const PRIVATE: i32 = libc::IPC_PRIVATE;
const EXCLUSIVE: i32 = libc::IPC_CREAT | libc::IPC_EXCL;

/// An object, and whose it is.
#[derive(Debug)]
pub(super) struct Object<T> {
    pub(super) permissions: Permissions,
    /// When it was made, or changed by one of the calls that end in ctl.
    pub(super) changed: i64,
    pub(super) content: T,
}

/// All of a kind.
#[derive(Debug)]
pub(super) struct Table<T> {
    objects: HashMap<i32, Object<T>>,
    /// The latest id that was given.
    latest: Option<i32>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { objects: HashMap::new(), latest: None }
    }
}

impl<T> Table<T> {
    /// What the calls that end in get do. `make` makes an object for the id that it gets, or under another.
    ///
    /// # Errors
    /// Returns what the calls return; [`Errno::INVAL`] if an object does not fit.
    pub(super) fn get(
        &mut self,
        actor: &Actor,
        key: i32,
        flags: i32,
        fits: impl FnOnce(&T) -> bool,
        make: impl FnOnce(i32) -> io::Result<(i32, T)>,
    ) -> io::Result<i32> {
        let is_it =
            |(_, object): &(&i32, &Object<T>)| key != PRIVATE && object.permissions.key == key;
        if let Some((id, object)) = self.objects.iter().find(is_it) {
            if flags & EXCLUSIVE == EXCLUSIVE {
                return Err(Errno::EXIST);
            }
            if !fits(&object.content) {
                return Err(Errno::INVAL);
            }
            return object.permissions.allow(actor, flags).map(|()| *id);
        }
        if key != PRIVATE && flags & libc::IPC_CREAT == 0 {
            return Err(Errno::NOENT);
        }
        if self.objects.len() >= OBJECTS_MAX {
            return Err(Errno::NOSPC);
        }
        let (id, content) = make(self.free_id()?)?;
        let permissions = Permissions::new(actor, key, flags);
        self.objects.insert(id, Object { permissions, changed: now(), content });
        Ok(id)
    }

    /// The next id that no object has: from a random one on, as no program is to rely on the first ones.
    fn free_id(&mut self) -> io::Result<i32> {
        let mut id = match self.latest {
            Some(id) => id,
            None => {
                let mut random = [0; 4];
                getrandom(&mut random, GetRandomFlags::empty())?;
                i32::from_ne_bytes(random)
            }
        };
        loop {
            id = id.wrapping_add(1) & i32::MAX;
            if !self.objects.contains_key(&id) {
                self.latest = Some(id);
                return Ok(id);
            }
        }
    }

    /// # Errors
    /// Returns [`NOBODYS`] if there is none with this id.
    pub(super) fn find(&mut self, id: i32) -> io::Result<&mut Object<T>> {
        self.objects.get_mut(&id).ok_or(NOBODYS)
    }

    pub(super) fn remove(&mut self, id: i32) -> Option<T> {
        self.objects.remove(&id).map(|object| object.content)
    }

    pub(super) fn iter(&mut self) -> impl Iterator<Item = (i32, &mut T)> {
        self.objects.iter_mut().map(|(id, object)| (*id, &mut object.content))
    }

    pub(super) fn retain(&mut self, mut keep: impl FnMut(i32, &mut T) -> bool) {
        self.objects.retain(|id, object| keep(*id, &mut object.content));
    }

    pub(super) fn is_full(&self) -> bool {
        self.objects.len() >= OBJECTS_MAX
    }
}

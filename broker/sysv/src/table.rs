//! Objects of one kind, found by key and used by id.

use crate::access::{Actor, Permissions};
use crate::{NOBODYS, now};
use nix::libc;
use rustix::io::{self, Errno};
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

/// Most objects of a kind at a time: the whole system has 4096 segments (shmget(2)).
pub const OBJECTS_MAX: usize = 1024;
/// The key of an object that is found by its id alone.
pub const PRIVATE: i32 = libc::IPC_PRIVATE;
const EXCLUSIVE: i32 = libc::IPC_CREAT | libc::IPC_EXCL;

/// An object, and whose it is.
#[derive(Debug)]
pub struct Object<T> {
    pub permissions: Permissions,
    /// When it was made, or changed by one of the calls that end in ctl.
    pub changed: i64,
    pub content: T,
}

/// All of a kind.
#[derive(Debug)]
pub struct Table<T> {
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
    pub fn get(
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
                let random = RandomState::new().hash_one(());
                i32::try_from(random >> 33).unwrap_or_default()
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
    pub fn find(&mut self, id: i32) -> io::Result<&mut Object<T>> {
        self.objects.get_mut(&id).ok_or(NOBODYS)
    }

    pub fn remove(&mut self, id: i32) -> Option<T> {
        self.objects.remove(&id).map(|object| object.content)
    }

    pub fn iter(&mut self) -> impl Iterator<Item = &mut T> {
        self.objects.values_mut().map(|object| &mut object.content)
    }

    pub fn retain(&mut self, mut keep: impl FnMut(&mut T) -> bool) {
        self.objects.retain(|_, object| keep(&mut object.content));
    }

    pub fn is_full(&self) -> bool {
        self.objects.len() >= OBJECTS_MAX
    }
}

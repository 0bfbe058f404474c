//! Which directories hold devices, by what is mounted there. Sources: tty(4), pts(4).

use super::other_places::Places;
use kernel::mounts::Mount;
use rules::memory;
use std::path::{Path, PathBuf};

/// Where devices are, whatever is mounted there.
pub(super) const DEVICES: &str = "/dev";

/// The directories that hold devices.
#[derive(Debug)]
pub(super) struct DeviceMounts {
    trees: Vec<PathBuf>,
    /// What is mounted in them and holds none.
    others: Vec<PathBuf>,
    /// What shows processes, if that is the broker's to open.
    processes: Vec<PathBuf>,
}

/// Where a path is with regard to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// No device is there or beneath.
    Outside,
    /// Some directory of devices is beneath.
    Above,
    /// It is a device, or holds nothing else.
    Inside,
    /// What it tells depends on who asks: the broker opens it.
    OfProcesses,
}

/// Whether there are directories of devices beneath one of `paths`.
pub(crate) fn lie_in(paths: &[PathBuf], mounts: &[Mount]) -> bool {
    let devices = DeviceMounts::among(mounts, false);
    paths.iter().any(|path| devices.place(path) == Place::Above)
}

impl DeviceMounts {
    /// Those of this mount namespace; what shows processes is left to the broker where it `watches_reads`.
    pub(super) fn among(mounts: &[Mount], watches_reads: bool) -> Self {
        let mut trees = vec![PathBuf::from(DEVICES)];
        let places = Places::among(mounts);
        let hidden = places.hidden(mounts);
        // What others have there is theirs, wherever else it is mounted.
        let memory = places.all(Path::new(memory::PLACE));
        let all = mounts.iter().chain(&hidden);
        let of_processes = all.clone().filter(|mount| watches_reads && mount.kind == "proc");
        let processes = of_processes.map(|mount| mount.point.clone()).collect();
        let points = all.filter(|mount| mount.is_of_devices());
        let elsewhere = points.filter(|mount| !mount.point.starts_with(DEVICES));
        trees.extend(elsewhere.map(|mount| mount.point.clone()));
        let inside = |path: &Path| trees.iter().any(|tree| path != tree && path.starts_with(tree));
        let others = mounts.iter().filter(|mount| !mount.is_of_devices() && inside(&mount.point));
        let others = others.filter(|it| !memory.iter().any(|place| it.point.starts_with(place)));
        let others = others.map(|mount| mount.point.clone()).collect();
        trees.extend(memory.into_iter().filter(|place| !place.starts_with(DEVICES)));
        Self { trees, others, processes }
    }

    pub(super) fn place(&self, path: &Path) -> Place {
        let within = |devices: &[PathBuf]| devices.iter().any(|place| path.starts_with(place));
        if within(&self.trees) && !within(&self.others) {
            Place::Inside
        } else if within(&self.processes) {
            Place::OfProcesses
        } else if self.trees.iter().chain(&self.processes).any(|tree| tree.starts_with(path)) {
            Place::Above
        } else {
            Place::Outside
        }
    }

    /// What is mounted beneath `path` and holds no devices.
    pub(super) fn others_in<'a>(&'a self, path: &'a Path) -> impl Iterator<Item = &'a Path> {
        self.others.iter().map(PathBuf::as_path).filter(move |other| other.starts_with(path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_outside_above_or_inside() {
        let mount = |point: &str, kind: &str| {
            let (device, root) = (Vec::new(), "/".into());
            Mount { point: point.into(), kind: kind.into(), device, root }
        };
        let devices = DeviceMounts::among(
            &[
                mount("/", "ext4"),
                mount("/dev", "tmpfs"),
                mount("/dev/pts", "devpts"),
                mount("/dev/shm", "tmpfs"),
                mount("/dev/mqueue", "mqueue"),
                mount("/srv/root/dev", "devtmpfs"),
            ],
            false,
        );
        for (path, place) in [
            ("/", Place::Above),
            ("/srv", Place::Above),
            ("/srv/root/dev", Place::Inside),
            ("/srv/root/dev/sda", Place::Inside),
            ("/srv/root/dev2", Place::Outside),
            ("/dev", Place::Inside),
            ("/dev/pts/0", Place::Inside),
            ("/dev/dri/card0", Place::Inside),
            ("/dev/shm/x", Place::Inside),
            ("/dev/mqueue/x", Place::Outside),
            ("/usr", Place::Outside),
        ] {
            assert_eq!(devices.place(Path::new(path)), place, "{path}");
        }
        assert!(devices.others_in(Path::new("/dev")).eq([Path::new("/dev/mqueue")]));
    }
}

//! Whether what was refused is of the git repository whose work tree begins above the working directory: no policy for the
//! working directory reaches that. Of the file system it asks where the repository is, and nothing else.

use super::Grounds;
use policy::harmless::is_too_wide;
use policy::repositories;
use std::path::{Path, PathBuf};

impl Grounds<'_> {
    /// The top of the work tree that the working directory is in, if `path` is of its repository, and the same policy lets
    /// it be written where landstrip is started there.
    pub(super) fn top_of_repository(&self, path: &Path) -> Option<PathBuf> {
        let is_written = self.files.allow_write.iter().any(|root| root.as_path() == self.work);
        // What is in memory first: this is asked of each path.
        let top = is_written.then(|| repositories::tops([self.work]).next())??;
        let helps = top != self.work && !is_too_wide(&top, self.home);
        let holds_it = |directory: &PathBuf| path.starts_with(directory);
        (helps && repositories::of(&top).iter().any(holds_it)).then_some(top)
    }
}

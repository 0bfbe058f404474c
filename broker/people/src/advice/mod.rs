//! What a policy would have to say: for what was refused ([`suggest`]), and for all that a run did ([`draft`]);
//! what to do about a tool that cannot be executed ([`launch`]), what else can have made one fail ([`unseen`]), and what
//! one may have left for git ([`entered`]).

pub mod draft;
pub mod entered;
pub mod grounds;
pub mod launch;
pub mod needs;
pub mod noise;
pub mod suggest;
pub mod unseen;

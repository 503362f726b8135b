//! What the watch sees in a lease, and when it has to look again.

use super::record::{Record, Standing};
use super::watched::{Look, Looked, Notice, Told};

impl Looked for Record {
    fn look(&self, told: &mut Told) -> Look {
        // Before the standing, see there.
        let stay = self.troubles.stay();
        let now = self.site.clock.now();
        let (standing, unlogged) = self.look_silently(now);
        let (notice, next) = match standing {
            Standing::Held { remaining } => {
                let danger = self.site.terms.danger();
                (None, Some(now.plus(remaining.saturating_sub(danger))))
            }
            Standing::Danger { remaining } => {
                let is_new = told.0.replace(stay) != Some(stay);
                let notice = is_new.then_some(Notice::Danger { stay, unlogged });
                (notice, Some(now.plus(remaining)))
            }
            Standing::Lost(_) => (Some(Notice::Lost { unlogged }), None),
            Standing::Released(_) => (None, None),
        };
        Look { notice, next }
    }
}

#[cfg(test)]
mod tests;

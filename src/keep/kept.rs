//! Into the background and out of it.

use std::sync::Arc;

use super::record::Record;
use super::task::Task;
use super::watched::Watched;
use crate::clock::Time;
use crate::error::Cause;

/// Has a fresh lease seen to in the background: renewed if its terms say so, and watched if
/// there is somebody to be told.
pub(crate) fn keep(record: &Arc<Record>, watched: Option<&Arc<dyn Watched>>) -> Result<(), Cause> {
    let site = &record.site;
    if let Some(watched) = watched {
        let danger = record.deadline().minus(site.terms.danger());
        let looked = Arc::downgrade(record);
        site.watch.add(record.number(), looked, watched, danger)?;
        record.be_watched();
    }
    if record.is_kept() {
        let task: Arc<dyn Task> = Arc::clone(record) as _;
        site.keeper.keep(record.number(), &task, &*site.server)?;
    }
    Ok(())
}

/// Ends all that is done for a lease which its holder has ended: after this nothing is sent for
/// it by the background, and no callback of it starts. It takes until `until` at most.
pub(super) fn let_go(record: &Record, until: Time) {
    let site = &record.site;
    if record.is_watched() {
        site.watch.remove(record.number());
    }
    if record.is_kept() && !site.keeper.withdraw(record.number(), until) {
        // It may still run.
        record.note_unanswered(1);
    }
}

//! What of a lease is logged without being asked for.

use super::record::{Record, Standing};

impl Record {
    /// Logs what was found. A danger that the holder has asked for, by `max_hold` or by going
    /// without renewal, is no news.
    pub(crate) fn log(&self, standing: Standing) {
        let key = self.site.key().escape_debug();
        let fingerprint = self.token.fingerprint();
        match standing {
            Standing::Lost(by) => say!(
                warn,
                target: "leasehold::lease",
                "the lease of `{key}` (fingerprint {fingerprint}) is lost: {by}"
            ),
            Standing::Danger { remaining } if self.can_be_renewed() => {
                let failure = self.troubles.last_failure();
                let why = failure.map_or_else(
                    || "no renewal has been confirmed for too long".to_owned(),
                    |failure| failure.chain().to_string(),
                );
                say!(
                    warn,
                    target: "leasehold::lease",
                    "the lease of `{key}` (fingerprint {fingerprint}) is in its danger zone with \
                     {} ms left: {why}",
                    remaining.as_millis()
                );
            }
            _ => {}
        }
    }

    /// Whether a renewal would lengthen it.
    pub(super) fn can_be_renewed(&self) -> bool {
        self.site.terms.renew_every().is_some() && self.deadline() < self.cap()
    }
}

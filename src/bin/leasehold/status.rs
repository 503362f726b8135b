//! `leasehold status`: who holds a lock, for how long, and whether others wait for it.

use clap::ArgMatches;
use leasehold::Holder;
use serde_json::{Value, json};

use crate::cli;
use crate::duration::show;
use crate::exit::{Code, Failure};
use crate::output::{Level, print, say};

const FREE: Code = Code(1);

pub(crate) fn main(matches: &ArgMatches) -> Result<Code, Failure> {
    let client = cli::client(matches)?;
    let as_json = matches.get_flag("json");
    let mut code = Code::OK;
    let mut rows = Vec::new();
    for key in cli::texts(matches, "keys") {
        // One that cannot be asked for does not hide the others.
        let holder = client.inspect(&key).map_err(Failure::from);
        code = match &holder {
            Err(failure) => failure.code,
            Ok(None) if code == Code::OK => FREE,
            Ok(_) => code,
        };
        if as_json {
            rows.push(row(&key, &holder));
        } else if cli::level(matches) != Level::Quiet {
            match &holder {
                Ok(holder) => print(&line(&key, holder.as_ref())),
                Err(failure) => say(format_args!("{key}: {failure}")),
            }
        }
    }
    if as_json {
        print(&format!("{:#}", Value::Array(rows)));
    }
    Ok(code)
}

fn line(key: &str, holder: Option<&Holder>) -> String {
    let Some(holder) = holder else {
        return format!("{key}: free");
    };
    let label = holder
        .label()
        .map_or(String::new(), |label| format!(" by {label}"));
    let remaining = holder
        .remaining()
        .map_or("without an expiry".to_owned(), |left| {
            format!("for {}", show(left))
        });
    let fingerprint = holder.fingerprint();
    let others = match holder.is_waited_for() {
        Some(true) => ", others wait",
        Some(false) => "",
        // Not to be taken for "nobody".
        None => ", whether others wait is unknown",
    };
    format!("{key}: held{label} (fingerprint {fingerprint}) {remaining}{others}")
}

fn row(key: &str, holder: &Result<Option<Holder>, Failure>) -> Value {
    match holder {
        Err(failure) => json!({ "key": key, "error": failure.text }),
        Ok(None) => json!({ "key": key, "held": false }),
        Ok(Some(holder)) => json!({
            "key": key,
            "held": true,
            "label": holder.label(),
            "fingerprint": holder.fingerprint(),
            "remaining_ms": holder.remaining().map(|left| u64::try_from(left.as_millis()).unwrap_or(u64::MAX)),
            "waited_for": holder.is_waited_for(),
        }),
    }
}

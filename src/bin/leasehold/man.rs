//! The man page: one for all commands, so that `man leasehold` tells everything.

use std::io;

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use crate::help;

/// The page as it is packed, for those who install it.
#[cfg(test)]
const PACKED: &str = include_str!("leasehold.1");

pub(crate) fn page(command: &Command) -> io::Result<String> {
    let mut command = command.clone();
    command.build();
    let man = Man::new(command.clone());
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    let mut manner = Roff::new();
    // Names of variables and options stay in one piece.
    manner.control("nh", []);
    manner.control("ad", ["l"]);
    manner.to_writer(&mut page)?;
    man.render_name_section(&mut page)?;
    let shown = |sub: &&Command| !sub.is_hide_set() && sub.get_name() != "help";
    let mut synopsis = Roff::new();
    synopsis.control("SH", ["SYNOPSIS"]);
    for sub in command.get_subcommands().filter(shown) {
        usage(sub, &mut synopsis);
    }
    synopsis.to_writer(&mut page)?;
    man.render_description_section(&mut page)?;
    for sub in command.get_subcommands().filter(shown) {
        of_command(sub, &mut page)?;
    }
    let mut codes = Roff::new();
    codes.control("SH", ["EXIT STATUS"]);
    text(help::CODES, &mut codes);
    codes.to_writer(&mut page)?;
    Ok(once(&String::from_utf8_lossy(&page)))
}

/// `leasehold run [OPTIONS] <KEY> -- <COMMAND>...`
fn usage(sub: &Command, roff: &mut Roff) {
    let usage = sub.clone().render_usage().to_string();
    let name = sub.get_bin_name().unwrap_or_default();
    let rest = usage.trim_start_matches("Usage: ").strip_prefix(name);
    roff.text([bold(name), roman(rest.unwrap_or_default())]);
    roff.control("br", []);
}

fn of_command(sub: &Command, page: &mut Vec<u8>) -> io::Result<()> {
    let man = Man::new(sub.clone().mut_arg("help", |help| help.hide(true)));
    let mut head = Roff::new();
    head.control("SH", [sub.get_bin_name().unwrap_or_default()]);
    head.to_writer(page)?;
    let mut body = Vec::new();
    man.render_description_section(&mut body)?;
    man.render_options_section(&mut body)?;
    // They are parts of one section here.
    let body = String::from_utf8_lossy(&body);
    for line in body.lines().filter(|line| *line != ".SH DESCRIPTION") {
        let line = if line == ".SH OPTIONS" { ".PP" } else { line };
        page.extend_from_slice(line.as_bytes());
        page.push(b'\n');
    }
    let mut tail = Roff::new();
    if let Some(examples) = sub.get_after_help() {
        // They have a section of their own.
        text(
            examples.to_string().trim_end_matches(help::CODES),
            &mut tail,
        );
    }
    tail.to_writer(page)
}

/// Lines that begin with blanks are kept as they stand, the others are filled.
fn text(text: &str, roff: &mut Roff) {
    roff.control("PP", []);
    let mut as_it_stands = false;
    for line in text.lines() {
        if line.is_empty() {
            roff.control("PP", []);
            continue;
        }
        if line.starts_with(' ') != as_it_stands {
            as_it_stands = !as_it_stands;
            roff.control(if as_it_stands { "nf" } else { "fi" }, []);
        }
        roff.text([roman(line)]);
    }
    if as_it_stands {
        roff.control("fi", []);
    }
}

/// Every part comes with the same two lines of preparation: they are kept once.
fn once(page: &str) -> String {
    let is_preparation = |line: &&str| line.starts_with(".ie ") || line.starts_with(".el ");
    let mut lines: Vec<_> = page.lines().filter(is_preparation).take(2).collect();
    lines.extend(page.lines().filter(|line| !is_preparation(line)));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_packed_page_is_the_one_that_the_command_prints() {
        let page = page(&crate::cli::command()).unwrap();
        assert!(
            PACKED.trim_end() == page.trim_end(),
            "leasehold man > src/bin/leasehold/leasehold.1"
        );
    }

    #[test]
    fn the_page_tells_of_every_option_and_exit_code() {
        let mut command = crate::cli::command();
        command.build();
        let options = command.get_subcommands().filter(|sub| !sub.is_hide_set());
        let options = options.flat_map(|sub| sub.get_arguments().filter_map(|arg| arg.get_long()));
        for option in options.filter(|option| *option != "help") {
            let written = format!("\\-\\-{}", option.replace('-', "\\-"));
            assert!(PACKED.contains(&written), "--{option}");
        }
        for code in ["64", "69", "70", "75", "126", "127", "128+n"] {
            assert!(PACKED.contains(&format!("   {code} ")), "{code}");
        }
    }
}

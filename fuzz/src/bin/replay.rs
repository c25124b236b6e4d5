//! Runs one target on one file: `replay TARGET FILE`.

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let (Some(target), Some(file)) = (args.next(), args.next()) else {
        eprintln!("usage: replay TARGET FILE");
        return ExitCode::from(2);
    };
    let data = match std::fs::read(&file) {
        Ok(data) => data,
        Err(error) => {
            eprintln!("{file}: {error}");
            return ExitCode::from(2);
        }
    };
    match gmp_fuzz::TARGETS.iter().find(|(name, _)| *name == target) {
        Some((_, run)) => {
            let compared = run(&data);
            println!("{target}: {compared:?}");
            ExitCode::SUCCESS
        }
        None => {
            eprintln!(
                "expected a target: {:?}",
                gmp_fuzz::TARGETS.map(|(name, _)| name)
            );
            ExitCode::from(2)
        }
    }
}

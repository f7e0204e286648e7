//! The results as JSON: every single measurement, and the way back.

use serde_json::{Map, Value, json};

use super::machine::Machine;
use super::results::{Facts, Figure, Figures, Measurement, Results, Run, SYSTEMS, name};
use super::rows::Row;

pub(super) fn write(results: &Results) -> Value {
    let runs: Vec<Value> = results.runs.iter().map(run).collect();
    json!({ "runs": runs })
}

fn run(run: &Run) -> Value {
    let Facts { machine, apache_version, zoolet_version, rounds, seconds } = &run.facts;
    let measurements: Vec<Value> = run.measurements.iter().map(measurement).collect();
    json!({
        "machine": {
            "cores": machine.cores,
            "memory_mib": machine.memory_mib,
            "kernel": machine.kernel,
        },
        "versions": { "apache": apache_version, "zoolet": zoolet_version },
        "rounds": rounds,
        "seconds": seconds,
        "measurements": measurements,
    })
}

fn measurement(measurement: &Measurement) -> Value {
    let Measurement { row, system, round, figures } = measurement;
    let mut object = Map::from_iter([
        ("row".to_owned(), json!(row.to_string())),
        ("system".to_owned(), json!(name(*system))),
        ("round".to_owned(), json!(round)),
    ]);
    for (figure, value) in &figures.0 {
        object.insert(figure.key().to_owned(), json!(rounded(*value)));
    }
    Value::Object(object)
}

/// To three decimals.
fn rounded(value: f64) -> f64 {
    (value * 1_000.0).round() / 1_000.0
}

/// Reads what [`write()`] made; the error says what is wrong.
pub(super) fn read(text: &str) -> Result<Results, String> {
    let value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let runs = list(&value, "runs")?;
    let runs = runs.iter().map(read_run).collect::<Result<_, _>>()?;
    Ok(Results { runs })
}

fn read_run(value: &Value) -> Result<Run, String> {
    let (machine, versions) = (field(value, "machine")?, field(value, "versions")?);
    let facts = Facts {
        machine: Machine {
            cores: number(machine, "cores")?,
            memory_mib: number(machine, "memory_mib")?,
            kernel: text(machine, "kernel")?.to_owned(),
        },
        apache_version: text(versions, "apache")?.to_owned(),
        zoolet_version: text(versions, "zoolet")?.to_owned(),
        rounds: number(value, "rounds")?,
        seconds: number(value, "seconds")?,
    };
    let measurements = list(value, "measurements")?.iter().map(read_measurement);
    Ok(Run { facts, measurements: measurements.collect::<Result<_, _>>()? })
}

fn read_measurement(value: &Value) -> Result<Measurement, String> {
    let row = text(value, "row")?;
    let row = Row::find(row).ok_or_else(|| format!("unknown row `{row}`"))?;
    let system = text(value, "system")?;
    let system = SYSTEMS.into_iter().find(|known| name(*known) == system);
    let system = system.ok_or_else(|| format!("row `{row}`: unknown system in {value}"))?;
    let mut figures = Figures::default();
    for (key, value) in value.as_object().into_iter().flatten() {
        if ["row", "system", "round"].contains(&key.as_str()) {
            continue;
        }
        let figure = Figure::find(key).ok_or_else(|| format!("row `{row}`: unknown `{key}`"))?;
        let value = value.as_f64().ok_or_else(|| format!("row `{row}`: `{key}` is {value}"))?;
        figures.0.insert(figure, value);
    }
    Ok(Measurement { row, system, round: number(value, "round")?, figures })
}

fn field<'a>(value: &'a Value, key: &str) -> Result<&'a Value, String> {
    value.get(key).ok_or_else(|| format!("`{key}` is missing"))
}

fn list<'a>(value: &'a Value, key: &str) -> Result<&'a Vec<Value>, String> {
    field(value, key)?.as_array().ok_or_else(|| format!("`{key}` is not a list"))
}

fn text<'a>(value: &'a Value, key: &str) -> Result<&'a str, String> {
    field(value, key)?.as_str().ok_or_else(|| format!("`{key}` is not a text"))
}

fn number<T: TryFrom<u64>>(value: &Value, key: &str) -> Result<T, String> {
    let number = field(value, key)?.as_u64().and_then(|number| T::try_from(number).ok());
    number.ok_or_else(|| format!("`{key}` is not a number in range"))
}

#[cfg(test)]
mod tests {
    use super::super::results::tests::example;
    use super::*;

    #[test]
    fn the_json_has_every_single_measurement() {
        let json = write(&example());
        let run = &json["runs"][0];
        assert_eq!(run["measurements"].as_array().unwrap().len(), 18);
        assert_eq!(run["measurements"][9]["row"], "3:set:16x8");
        assert_eq!(run["measurements"][9]["switches_per_op"], 0.251);
        assert_eq!(run["measurements"][3]["row"], "KILL");
        assert_eq!(run["machine"]["cores"], 2);
    }

    #[test]
    fn what_is_written_is_read_again() {
        let results = example();
        assert_eq!(read(&write(&results).to_string()), Ok(results));
    }

    #[test]
    fn what_is_wrong_in_a_file_is_named() {
        let text = write(&example()).to_string();
        for (from, to, expected) in [
            ("3:set:16x8", "3:put:16x8", "unknown row `3:put:16x8`"),
            ("p99_us", "p98_us", "row `3:set:16x8`: unknown `p98_us`"),
            ("\"Apache\"", "\"other\"", "unknown system"),
            ("\"cores\":2", "\"cores\":-2", "`cores` is not a number in range"),
            ("\"runs\"", "\"run\"", "`runs` is missing"),
        ] {
            let error = read(&text.replace(from, to)).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        assert!(read("{").is_err());
    }
}

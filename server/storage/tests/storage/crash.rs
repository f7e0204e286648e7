//! Power cuts and kills at every disk call: what was acknowledged is there, what was not handed in
//! is not, and recovery itself may be cut short as often as it likes.

use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex};

use zoolet_storage::{Image, MemoryDisk, Survival};

use crate::trace::{Dice, Model, Trace, open};

/// The disk after one call, and which models may be found on it.
struct Moment {
    image: Image,
    models: RangeInclusive<usize>,
}

/// Notes the disk after each changing call from now on.
fn record(trace: &Trace) -> Arc<Mutex<Vec<Moment>>> {
    let moments = Arc::new(Mutex::new(Vec::new()));
    let (notes, progress) = (moments.clone(), trace.progress.clone());
    trace.disk.observe(move |image| {
        let moment = Moment { image: image.clone(), models: progress.range() };
        notes.lock().unwrap().push(moment);
    });
    moments
}

fn survivals(dice: &mut Dice) -> Vec<Survival> {
    let seed = |dice: &mut Dice| dice.roll(u64::MAX);
    vec![
        Survival::Nothing,
        Survival::Everything,
        Survival::Some { seed: seed(dice) },
        Survival::Some { seed: seed(dice) },
        Survival::Torn { seed: seed(dice) },
        Survival::Torn { seed: seed(dice) },
        Survival::Torn { seed: seed(dice) },
    ]
}

/// Opens a log on what a crash left. The number of the model it holds.
fn recover(disk: &MemoryDisk, models: &[Model], allowed: RangeInclusive<usize>) -> usize {
    let wal = open(disk).unwrap_or_else(|error| panic!("cannot open: {error}"));
    let found = Model::of(&wal).unwrap_or_else(|error| panic!("cannot read: {error}"));
    disk.switch_off();
    let position = allowed.clone().rev().find(|number| models[*number] == found);
    position.unwrap_or_else(|| {
        panic!(
            "none of the states {allowed:?} but {found:#?}\ninstead of {:#?}",
            models[*allowed.end()]
        )
    })
}

/// All crashes of one trace; how many there were.
fn crash_everywhere(seed: u64) -> usize {
    let mut trace = Trace::new(MemoryDisk::with_faults(), seed);
    let moments = record(&trace);
    trace.open().unwrap();
    for _ in 0..60 {
        trace.step().unwrap();
    }
    trace.wal = None;
    let mut dice = Dice(!seed);
    let mut crashes = 0;
    for (call, moment) in moments.lock().unwrap().iter().enumerate() {
        for survival in survivals(&mut dice) {
            let after = moment.image.after_power_cut(survival);
            name_the_case(seed, call, survival, || {
                recover(&MemoryDisk::from_image(after), &trace.models, moment.models.clone());
            });
            crashes += 1;
        }
        name_the_case(seed, call, Survival::Everything, || {
            kill_and_cut_power(moment, &trace.models, &mut dice);
        });
        crashes += 3;
    }
    crashes
}

/// A killed server leaves its unsynced writes in the cache. What the next one finds there it must
/// make durable before it shows it.
fn kill_and_cut_power(moment: &Moment, models: &[Model], dice: &mut Dice) {
    let disk = MemoryDisk::from_image(moment.image.clone());
    let found = recover(&disk, models, moment.models.clone());
    for survival in [Survival::Nothing, Survival::Torn { seed: dice.roll(u64::MAX) }] {
        let after = MemoryDisk::from_image(disk.image().after_power_cut(survival));
        recover(&after, models, found..=found);
    }
}

/// Names the case before a failure goes on.
fn name_the_case(seed: u64, call: usize, survival: Survival, case: impl FnOnce()) {
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(case));
    if let Err(panic) = result {
        let text = panic.downcast_ref::<String>().cloned().unwrap_or_default();
        panic!("seed {seed}, after disk call {call}, {survival:?}: {text}");
    }
}

#[test]
fn a_crash_at_any_disk_call_loses_nothing_acknowledged() {
    let crashes_min = std::env::var("ZOOLET_CRASHES").map_or(20_000, |text| text.parse().unwrap());
    let mut crashes = 0;
    let mut seed = 1;
    while crashes < crashes_min {
        crashes += crash_everywhere(seed);
        seed += 1;
    }
}

/// Crashes while a crash is being recovered from, and goes on from there, generation after
/// generation.
#[test]
fn a_log_survives_a_life_of_crashes() {
    for seed in 1..=40 {
        let mut dice = Dice(seed);
        let mut image = Image::default();
        let mut model = Model::default();
        for generation in 0..12_usize {
            let mut trace = Trace::new(MemoryDisk::from_image(image), dice.roll(u64::MAX));
            trace.models = vec![model];
            let moments = record(&trace);
            trace.open().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            for _ in 0..dice.roll(30) {
                trace.step().unwrap();
            }
            trace.kill();
            let moments = moments.lock().unwrap();
            let moment = &moments[dice.roll(moments.len() as u64) as usize];
            let survival = Survival::Torn { seed: dice.roll(u64::MAX) };
            let after = moment.image.after_power_cut(survival);
            let mut found = 0;
            name_the_case(seed, generation, survival, || {
                let disk = MemoryDisk::from_image(after.clone());
                found = recover(&disk, &trace.models, moment.models.clone());
            });
            image = after;
            model = trace.models[found].clone();
        }
    }
}

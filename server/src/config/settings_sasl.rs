//! The settings of SASL.

use super::setting::{Field, Setting};

const NO_RANGE: (u64, u64) = (0, 0);

/// All of them.
#[rustfmt::skip]
pub(super) static SASL: [Setting; 6] = [
    Setting {
        section: "sasl", key: "jaas_file", unit: "(the name of a file)", range: NO_RANGE,
        about: "A JAAS file of Apache ZooKeeper: user_NAME=\"PASSWORD\" for each user that can log in. A\n\
                relative path starts at the directory of this file.",
        derived: false, field: |c| Field::File(&mut c.sasl.jaas_file),
    },
    Setting {
        section: "sasl", key: "jaas_section", unit: "(a name)", range: NO_RANGE,
        about: "The section of that file. Without it: Server.",
        derived: false, field: |c| Field::Text(&mut c.sasl.jaas_section),
    },
    Setting {
        section: "sasl", key: "users_file", unit: "(the name of a file)", range: NO_RANGE,
        about: "A file with a line NAME:PASSWORD for each user that can log in, besides those of the\n\
                JAAS file or instead of them. Empty lines and lines that begin with # are skipped.",
        derived: false, field: |c| Field::File(&mut c.sasl.users_file),
    },
    Setting {
        section: "sasl", key: "super_password", unit: "(a password)", range: NO_RANGE,
        about: "The password of the user super; it counts before that of the files, where the user must be.",
        derived: false, field: |c| Field::Password(&mut c.sasl.super_password),
    },
    Setting {
        section: "sasl", key: "super_users", unit: "a list of users", range: NO_RANGE,
        about: "The users that may do everything.",
        derived: false, field: |c| Field::Names(&mut c.sasl.super_users),
    },
    Setting {
        section: "sasl", key: "failed_logins_served", unit: "true or false", range: NO_RANGE,
        about: "Whether a client whose login has failed is served without an identity. Otherwise its\n\
                connection is closed.",
        derived: false, field: |c| Field::Flag(&mut c.sasl.failed_logins_served),
    },
];

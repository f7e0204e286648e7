//! The switches of a server's configuration that travel in its commands.

/// The switches of the configuration on which an effect depends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each is a switch of the configuration")]
pub struct Policy {
    /// `skipACL`: no permission is checked.
    pub skip_acl: bool,
    /// `enforceQuota`: hard quotas refuse writes.
    pub enforce_quota: bool,
    /// `extendedTypesEnabled`: znodes may have a time to live.
    pub extended_types: bool,
    /// `reconfigEnabled`: the ensemble may be changed at run time.
    pub reconfig: bool,
}

impl Policy {
    pub(super) const fn bits(self) -> u8 {
        (self.skip_acl as u8)
            | (self.enforce_quota as u8) << 1
            | (self.extended_types as u8) << 2
            | (self.reconfig as u8) << 3
    }

    pub(super) const fn from_bits(bits: u8) -> Self {
        Self {
            skip_acl: bits & 1 != 0,
            enforce_quota: bits & 2 != 0,
            extended_types: bits & 4 != 0,
            reconfig: bits & 8 != 0,
        }
    }
}

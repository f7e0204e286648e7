//! The harness of the suites.

# The verbs. CI calls the same ones and nothing else; `check` never writes to the work tree.

.PHONY: check fmt clippy doc deny test interop kazoo oracle faults fuzz bench

check: fmt clippy doc deny

fmt:
	cargo fmt --all -- --check

clippy:
	cargo clippy --workspace --all-targets -- -D warnings

doc:
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --document-private-items

deny:
	cargo deny check

# What a newcomer runs. Suites that need a foreign runtime say so loudly when it is missing.
test:
	cargo test --workspace

# The longer tiers.

# kazoo's own suite on Apache ZooKeeper and on zoolet, side by side.
kazoo:
	ZOOLET_TIER=kazoo cargo test -p zoolet-tests --test kazoo_suite -- --nocapture

# A million operations against the oracle; SEED=… replays.
oracle:
	ZOOLET_ORACLE_OPERATIONS=1000000 ZOOLET_ORACLE_SEED=$(or $(SEED),1) \
		cargo test -p zoolet-tests --test oracle -- --nocapture

# Every decoder, for SECONDS (20) each, on the committed corpus.
fuzz:
	.ci/fuzz $(or $(SECONDS),20)

# The load figures of docs/performance.md, side by side with Apache ZooKeeper.
bench:
	.ci/bench

# The verbs, most of which CI calls; its own `deny` leaves out the advisories, whose list is not
# reachable from everywhere, and its build of the tests lints as `clippy` does. `check` never
# writes to the work tree.

.PHONY: check fmt clippy clippy_plain clippy_planted check_each doc deny package dist deb image packages test kazoo apache oracle kill9 faults bench instructions instructions_base power_cut lock_programs compare_locks golden partitions torture torture_languages planted planted_seeds fuzz fuzz_corpus sim chaos

check: fmt clippy check_each doc deny

fmt:
	cargo fmt --all -- --check

clippy: clippy_plain clippy_planted

clippy_plain:
	cargo clippy --workspace --all-targets -- -D warnings

# With the planted bugs.
clippy_planted:
	cargo clippy --workspace --all-targets -- -D warnings --cfg zoolet_planted

# Each package by itself, without the features that other packages and its own tests turn on.
check_each:
	cargo tree --workspace --depth 0 --prefix none --format '{p}' | awk 'NF { print $$1 }' | \
		while read -r package; do cargo clippy -p "$$package" -- -D warnings || exit 1; done

# The second form is what docs.rs shows of the libraries.
doc:
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --document-private-items
	RUSTDOCFLAGS="-D warnings" cargo doc --no-deps --lib -p zoolet-jute -p zoolet-client \
		-p zoolet-replica -p zoolet-history -p zoolet-storage -p zoolet-migrate -p zoolet-server \
		-p zoolet-http -p zoolet-console -p zoolet-tls -p zoolet-survey

deny:
	cargo deny check

# What crates.io would get, each built from its own package.
package:
	cargo package -p zoolet-jute -p zoolet-tls -p zoolet-client -p zoolet-survey -p zoolet-replica \
		-p zoolet-history -p zoolet-storage -p zoolet-migrate -p zoolet-server -p zoolet-console \
		-p zoolet-http -p zoolet --allow-dirty

# The release archive in target/dist, with static programs (docs/install.md). DIST_PROFILE=quick is for
# tries: it builds in a part of the time.
dist:
	DIST_PROFILE='$(DIST_PROFILE)' server/package/build

# The Debian package and the container image, from the programs of the archive.
deb: dist
	server/package/deb

image: dist
	server/package/image/build

# Builds all of them, and installs and starts each; needs root, and says what is missing.
packages: deb image
	failed=0; for each in archive install deb image kubernetes; do \
		python3 tests/packages/$$each.py || failed=1; done; exit $$failed

# What a newcomer runs. Suites that need a foreign runtime say so loudly when it is missing.
test:
	cargo test --workspace

# The longer tiers.

# kazoo's own suite on Apache ZooKeeper and on zoolet, or on one of them: SERVERS=zoolet.
kazoo:
	ZOOLET_TIER=kazoo cargo test --workspace --test kazoo_suite -- $(if $(SERVERS),on_$(SERVERS)) \
		--nocapture --test-threads=1

# The programs of foreign clients, the Rust client with its recipes, and zooletctl on Apache ZooKeeper.
apache:
	cargo build --workspace --bin zooletctl --example due
	ZOOLET_TIER=apache cargo test --workspace --test foreign --test recipes --test ctl -- on_apache --nocapture

# A million operations against the oracle; SEED=… replays.
oracle:
	ZOOLET_ORACLE_OPERATIONS=1000000 ZOOLET_ORACLE_SEED=$(or $(SEED),1) \
		cargo test --workspace --test foreign oracle:: -- --nocapture

# Kills of leaders and followers under load; ROUNDS of them. The run prints its seed; SEED=… replays
# victims, moments and the load's operations, here and in the other tiers of faults.
kill9:
	ZOOLET_TIER=faults ZOOLET_KILL_ROUNDS=$(or $(ROUNDS),200) $(if $(SEED),ZOOLET_FAULTS_SEED=$(SEED)) \
		cargo test --workspace --test faults kill9:: -- --nocapture

# All suites of faults with real processes, those included that the simulator and chaos cover as well.
faults:
	ZOOLET_TIER=faults $(if $(SEED),ZOOLET_FAULTS_SEED=$(SEED)) \
		cargo test --workspace --test faults -- --nocapture

# The figures of docs/performance.md, which says what ROUNDS, SECS, LOADS, FAILOVERS, CASES and OUT are;
# ZKLOAD names the load generator's binary.
bench:
	cargo build --release -p zoolet
	ZKLOAD='$(ZKLOAD)' ROUNDS='$(ROUNDS)' SECS='$(SECS)' LOADS='$(LOADS)' FAILOVERS='$(FAILOVERS)' \
		CASES='$(CASES)' $(if $(OUT),OUT='$(abspath $(OUT))') ZOOLET_BINARY=$(CURDIR)/target/release/zoolet \
		cargo run --release -p zoolet-tests --example bench

# The instructions of the hot paths against the stored base (docs/testing.md); needs valgrind.
instructions:
	cargo run --quiet --release -p zoolet-replica --example instructions -- check

# Makes the present counts of this toolchain the base.
instructions_base:
	cargo run --quiet --release -p zoolet-replica --example instructions -- write

# Power cuts of all servers at once, at POINTS of them, by copies of a loop image; needs root.
power_cut:
	ZOOLET_TIER=power_cut ZOOLET_POWER_CUT_POINTS=$(or $(POINTS),12) \
		$(if $(SEED),ZOOLET_FAULTS_SEED=$(SEED)) cargo test --workspace --test power_cut -- --nocapture

# The classic lock programs on zoolet and on Apache ZooKeeper.
lock_programs:
	ZOOLET_TIER=lock_programs cargo test --workspace --test foreign -- \
		cross_language::lock_programs:: cross_language::recipes:: cross_language::curator:: --nocapture

# In these builds the example has the programs built as the tests have them: a build of programs alone
# would make all packages anew, without the features that the tests turn on.

# The lock torture: SECS seconds of faults (600), seed after seed from SEED on, on three ensembles side
# by side; SERVERS=apache tortures Apache ZooKeeper; reports and pictures go to OUT, if it is given.
torture:
	cargo build --workspace --bin zoolet --example due
	ZOOLET_TORTURE_SECS=$(or $(SECS),600) ZOOLET_TORTURE_SERVERS=$(or $(SERVERS),zoolet) \
		$(if $(SEED),ZOOLET_TORTURE_SEED=$(SEED)) $(if $(OUT),ZOOLET_TORTURE_OUT=$(abspath $(OUT))) \
		cargo test --workspace --test torture seed_after_seed -- --nocapture

# Curator, Go, kazoo and this client's recipes on the same locks, under faults, for SECS seconds (300);
# SERVERS=apache, SEED=… and OUT=… as above.
torture_languages:
	cargo build --workspace --bin zoolet --example due
	ZOOLET_TORTURE_SECS=$(or $(SECS),300) ZOOLET_TORTURE_SERVERS=$(or $(SERVERS),zoolet) \
		$(if $(SEED),ZOOLET_FAULTS_SEED=$(SEED)) $(if $(OUT),ZOOLET_TORTURE_OUT=$(abspath $(OUT))) \
		cargo test --workspace --test foreign cross_language::multi_language:: -- --nocapture

# Whole ensembles on simulated network, disks, clocks and chance. SEED=7 is one run, with TRACE=1 step by
# step, with MINIMIZE=1 made smaller; SECS=3600 runs seeds for an hour, SEEDS=20 no more than these, FROM=1
# from this one on; ARGS=… are options of the program (docs/testing.md).
sim:
	cargo build -q --workspace --bin zoolet-sim --example due
	$(or $(CARGO_TARGET_DIR),target)/debug/zoolet-sim $(if $(SEED),--seed=$(SEED) $(if $(TRACE),--trace) $(if $(MINIMIZE),--minimize),\
		$(if $(ARGS),$(if $(TRACE),--trace),--night=$(or $(SECS),600) $(if $(FROM),--from=$(FROM)) $(if $(SEEDS),--seeds=$(SEEDS)) \
		--commit=$(shell git describe --always --dirty --exclude='*') $(if $(LEDGER),--ledger=$(LEDGER)))) $(ARGS)

# Whole ensembles of real processes under overlapping faults, with the simulator's load and checks; needs
# root. Seeds go on for SECS seconds (600) from SEED on; SEED=7 alone is one run. SERVERS=3 or 5,
# FAULT_SECS (20) of each run, KINDS=kill,stop, KEEP=1 and LEDGER=… as in docs/testing.md.
chaos:
	cargo build -q --workspace --example chaos
	target/debug/examples/chaos seed=$(SEED) secs=$(SECS) servers=$(SERVERS) fault-secs=$(FAULT_SECS) \
		kinds=$(KINDS) $(if $(KEEP),keep) $(if $(LEDGER),ledger=$(LEDGER) commit=$(shell git describe --always --dirty --exclude='*'))

# Plants bugs one by one and checks that their suites find them: BUG=name,… of tests/planted.toml,
# GROUP=0 to 2, or all. NOTHING=1 runs the same suites without the bugs; they must pass. BUILD=1 only
# builds them, in target/planted.
planted:
	ZOOLET_PLANT=$(or $(BUG),$(if $(GROUP),group:$(GROUP)),all) $(if $(NOTHING),ZOOLET_PLANT_NOTHING=1) \
		$(if $(BUILD),ZOOLET_PLANT_BUILD=1) cargo test --workspace --test planted planted_bugs -- --nocapture

# The table in docs/testing.md of the seeds with which the simulator finds planted bugs, written anew.
planted_seeds:
	ZOOLET_REWRITE=1 $(MAKE) planted BUG=simulator

# Every way in which people lock, side by side: rewrites docs/lock-comparison.md, which says how it is
# measured. SHORT=1 takes a few minutes; SYSTEMS=name,… compares some stores alone; both
# write to target/compare; ROUNDS, WINDOW_MS, FAULTS, LANES and OUT as in tests/src/compare/options.rs.
compare_locks: profile = $(if $(filter 1,$(SHORT)),debug,release)
compare_locks:
	$(if $(filter 1,$(SHORT)),,cargo build --release -p zoolet)
	cargo build $(if $(filter 1,$(SHORT)),--workspace --bin zoolet,--release -p zoolet-tests) \
		--example compare_locks --example compare_client
	SHORT='$(SHORT)' SYSTEMS='$(SYSTEMS)' ROUNDS='$(ROUNDS)' WINDOW_MS='$(WINDOW_MS)' FAULTS='$(FAULTS)' \
		LANES='$(LANES)' $(if $(OUT),OUT='$(abspath $(OUT))') \
		ZOOLET_BINARY=$(CURDIR)/target/$(profile)/zoolet target/$(profile)/examples/compare_locks

# The golden vectors of jute/tests/golden, recorded anew; needs Java, Python, Go and a C compiler.
golden:
	cargo run -p zoolet-tests --example record_golden

# Every fuzz target on the committed corpus, FUZZ_SECONDS (20) each; needs cargo-fuzz.
fuzz:
	.ci/fuzz

# The committed corpora, made anew from the golden vectors.
fuzz_corpus:
	cargo run -p zoolet-jute --example fuzz_corpus
	cargo run -p zoolet-server --example server_fuzz_corpus

# Partitions of 2 to 6 servers in network namespaces, and ROUNDS random ones for each; needs root.
partitions:
	ZOOLET_TIER=faults ZOOLET_PARTITION_ROUNDS=$(or $(ROUNDS),20) $(if $(SEED),ZOOLET_FAULTS_SEED=$(SEED)) \
		cargo test --workspace --test faults partitions:: -- --nocapture

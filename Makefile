# The front desk: `make help`. Meson does the work.
BUILD ?= build
CC ?= gcc
SAN = -Db_sanitize=address,undefined -Db_lundef=false

.PHONY: help all release check e2e report sim asan tsan clang fuzz lines cover bench flame soak size fmt format rooms lint docs clean

all: $(BUILD)/debug/build.ninja
	ninja -C $(BUILD)/debug ringmain

help:
	@echo "make            build/debug/ringmain (gcc, ASan and UBSan)"
	@echo "make release    build/release/ringmain"
	@echo "make check      format, rooms, lint, unit and golden tests, 10,000 seeds"
	@echo "make e2e        the real binary against pretend providers (pytest)"
	@echo "make report     the page of 'ringmain bench --html' in a headless Chromium (pytest)"
	@echo "make sim SEED=7 one seed of the engine's simulator, with its story"
	@echo "make tsan       ThreadSanitizer: simulator and an end-to-end smoke test"
	@echo "make lines      cache lines that two loops share, and locks, on a request's path (none)"
	@echo "make clang      build and unit tests with clang, bodies scanned byte by byte (-Dscan=scalar)"
	@echo "make fuzz T=sse one fuzz target for a minute (json_scan json_block sse head body decode call config price tls; SECONDS=600)"
	@echo "make size       the longest functions and files"
	@echo "make bench KIT=FOLDER  against HAProxy and nginx: the whole table (bench/README.md); QUICK=1 takes two minutes"
	@echo "make flame KIT=FOLDER  where the cycles of W1, W2 and W3p are"
	@echo "make soak MINUTES=30   mixed load with failovers; nothing may grow"
	@echo "make docs       docs/settings.md from the settings table"
	@echo "make cover      line coverage of unit tests and simulator, worst files first"
	@echo "make fmt        clang-format over src and tests"

$(BUILD)/debug/build.ninja:
	CC=gcc meson setup $(BUILD)/debug $(SAN) >/dev/null
$(BUILD)/release/build.ninja:
	CC=gcc meson setup $(BUILD)/release --buildtype=release -Db_lto=true -Dtests=false >/dev/null
$(BUILD)/flame/build.ninja:
	CC=gcc meson setup $(BUILD)/flame --buildtype=release -Db_lto=true -Dtests=false -Dc_args=-g >/dev/null
$(BUILD)/clang/build.ninja:
	CC=clang meson setup $(BUILD)/clang -Dscan=scalar >/dev/null
$(BUILD)/tsan/build.ninja:
	CC=gcc meson setup $(BUILD)/tsan -Db_sanitize=thread -Db_lundef=false >/dev/null
$(BUILD)/lines/build.ninja:
	CC=gcc meson setup $(BUILD)/lines -Dlines=true -Dtests=false >/dev/null
$(BUILD)/fuzz/build.ninja:
	CC=clang meson setup $(BUILD)/fuzz -Dfuzz=true -Dtests=true -Db_sanitize=address,undefined -Db_lundef=false >/dev/null

release: $(BUILD)/release/build.ninja
	ninja -C $(BUILD)/release ringmain

asan: all

rooms:
	python3 tests/check_rooms.py

lint:
	python3 tests/check_lint.py

fmt:
	clang-format -i $$(git ls-files 'src/*.[ch]' 'tests/*.[ch]')

format:
	clang-format --dry-run --Werror $$(git ls-files 'src/*.[ch]' 'tests/*.[ch]')

docs: $(BUILD)/debug/build.ninja
	ninja -C $(BUILD)/debug tests/test_settings
	RINGMAIN_SOURCE=$$PWD RINGMAIN_WRITE_DOCS=1 $(BUILD)/debug/tests/test_settings >/dev/null

cover:
	[ -f $(BUILD)/cover/build.ninja ] || CC=gcc meson setup $(BUILD)/cover -Db_coverage=true >/dev/null
	ninja -C $(BUILD)/cover && meson test -C $(BUILD)/cover --suite unit --suite sim
	@cd $(BUILD)/cover && find . -name '*.gcda' -path '*src*' | xargs gcov -n 2>/dev/null | \
	  awk '/^File .*src\//{f=$$2} /^Lines executed/{if(f){print $$0, f; f=""}}' | sort -t: -k2 -n | head -40

size:
	python3 tests/check_size.py --list
	python3 tests/check_size.py

check: $(BUILD)/debug/build.ninja format rooms lint
	ninja -C $(BUILD)/debug
	meson test -C $(BUILD)/debug --suite unit --suite sim --print-errorlogs

sim: $(BUILD)/debug/build.ninja
	ninja -C $(BUILD)/debug sim_engine
	$(BUILD)/debug/tests/sim/sim_engine --seed $(or $(SEED),1) --story

e2e: all
	$(BUILD)/venv/bin/pytest tests/e2e -q

report: $(BUILD)/debug/build.ninja
	ninja -C $(BUILD)/debug tests/report/report_page
	$(BUILD)/venv/bin/pytest tests/report -q

clang: $(BUILD)/clang/build.ninja
	ninja -C $(BUILD)/clang
	meson test -C $(BUILD)/clang --suite unit --print-errorlogs

tsan: $(BUILD)/tsan/build.ninja
	ninja -C $(BUILD)/tsan
	meson test -C $(BUILD)/tsan --suite sim --print-errorlogs

lines: $(BUILD)/lines/build.ninja
	ninja -C $(BUILD)/lines ringmain
	RINGMAIN_BINARY=$(BUILD)/lines/ringmain $(BUILD)/venv/bin/pytest tests/lines -q

# What is found goes to build/fuzz; an input worth keeping is copied to tests/fuzz/corpus by hand, where it is a plain test.
fuzz: $(BUILD)/fuzz/build.ninja
	ninja -C $(BUILD)/fuzz tests/fuzz/fuzz_$(T)
	mkdir -p $(BUILD)/fuzz/found/$(T)
	$(BUILD)/fuzz/tests/fuzz/fuzz_$(T) -max_total_time=$(or $(SECONDS),60) -max_len=4096 \
	  -artifact_prefix=$(BUILD)/fuzz/$(T)- $(BUILD)/fuzz/found/$(T) tests/fuzz/corpus/$(T)

# KIT (or RINGMAIN_BENCH_KIT): the folder of the bench kit, a copy that can be written to. QUICK=1: two minutes, rough. ONLY=part,part
bench: release
	python3 bench/compare.py $(or $(KIT),$(RINGMAIN_BENCH_KIT)) $(if $(QUICK),--quick) $(if $(ONLY),--only $(ONLY))

# The release build with the lines' places in it: the same instructions, told apart by where they were written.
flame: $(BUILD)/flame/build.ninja
	ninja -C $(BUILD)/flame ringmain
	RINGMAIN_BINARY=$(CURDIR)/$(BUILD)/flame/ringmain python3 bench/flame.py $(or $(KIT),$(RINGMAIN_BENCH_KIT))

# MINUTES: how long (2).
soak: release
	$(BUILD)/venv/bin/python tests/soak/soak.py --minutes $(or $(MINUTES),2)

clean:
	rm -rf $(BUILD)/debug $(BUILD)/release $(BUILD)/clang $(BUILD)/tsan $(BUILD)/lines $(BUILD)/fuzz

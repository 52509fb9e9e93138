// Package faults tries what can go wrong around vitrine, alone and in pairs: docs/failures.md.
package faults

import (
	goflag "flag"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"vitrine/ci/long/harness"
	"vitrine/cmd/testkit"
	"vitrine/upstream/shape"
)

var (
	faultsSeed = goflag.Uint64("seed", 1, "of the choice of faults")
	faultsOnly = goflag.String("only", "", "only those whose name matches")
)

// Room for goroutines and memory beyond what there was before the faults.
const (
	goroutineRoom = 15
	memoryRoom    = 25 << 20
)

// A cell is what one or more faults came to.
type cell struct {
	name                       string
	answers, fetches, warnings int
	purges                     int
	goroutines, megabytes      int
	worst, recovery            time.Duration
	details                    []string
}

// The faults of a matrix, and what there was before them.
type matrix struct {
	*trial
	goroutines, memory float64
	cells              []cell
}

func nameOf(faults []fault) string {
	names := make([]string, len(faults))
	for i, f := range faults {
		names[i] = f.name
	}
	return strings.Join(names, ", then ")
}

// try lets faults happen, one after the other and each while those before it last, and asserts what
// must hold meanwhile and afterwards.
func (m *matrix) try(hold time.Duration, faults ...fault) {
	m.t.Helper()
	c := cell{name: nameOf(faults)}
	m.mu.Lock()
	m.worst, m.wrong, m.details = 0, nil, map[string]bool{}
	m.mu.Unlock()
	began, answers, fetches, version := time.Now(), m.answers.Load(), m.CMS.Count(shape.Banners), m.Version.Load()
	log := m.log.String()
	metrics, _ := m.operatorSays("/metrics")
	stop := m.load()
	wait := func(d time.Duration) { <-time.After(d) }
	for _, f := range faults {
		until := time.Now().Add(hold)
		f.begin()
		if len(faults) == 1 && f.says != (says{}) { // at once: loading is soon over
			var missing []string
			for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); wait(10 * time.Millisecond) {
				if missing = m.unsaid(f.says, log, metrics); len(missing) == 0 {
					break
				}
			}
			if len(missing) > 0 {
				m.t.Errorf("%s: nothing of %q", c.name, missing)
			}
		}
		wait(time.Until(until))
	}
	for _, f := range slices.Backward(faults) {
		f.end()
	}
	c.recovery = m.recover(c.name)
	m.Purge(m.t, m.redis) // counts at once, as before
	wait(harness.PurgeBound + 50*time.Millisecond)
	m.isTold(c.name)
	stop()

	took := time.Since(began)
	c.answers, c.fetches, c.purges = int(m.answers.Load()-answers), m.CMS.Count(shape.Banners)-fetches, int(m.Version.Load()-version)
	for line := range strings.Lines(strings.TrimPrefix(m.log.String(), log)) {
		if strings.Contains(line, `"level":"WARN"`) || strings.Contains(line, `"level":"ERROR"`) {
			c.warnings++
		}
	}
	testkit.Eventually(m.t, c.name+": goroutines and memory as before", func() bool {
		goroutines, memory := m.metric("go_goroutines"), m.metric("process_resident_memory_bytes")
		c.goroutines, c.megabytes = int(goroutines), int(memory)>>20
		return goroutines <= m.goroutines+goroutineRoom && memory <= m.memory+memoryRoom
	})
	failed := m.t.Failed()
	m.judge(&c, took, hold*time.Duration(len(faults)))
	if m.t.Failed() && !failed {
		m.t.Logf("the log meanwhile:\n%s", strings.TrimPrefix(m.log.String(), log))
	}
	m.cells = append(m.cells, c)
	m.t.Logf("%+v", c)
}

// instead are two faults of which the second takes the place of the first.
func (m *matrix) instead(a, b fault) []fault {
	first, second := a, b
	first.end, second.name = none, "instead "+b.name
	second.begin = func() {
		a.end()
		testkit.Check(m.t, testkit.Retry(func() error { return m.redis.Client().Ping(m.t.Context()).Err() }))
		b.begin()
	}
	return []fault{first, second}
}

// recover waits until a visitor gets a fresh answer that all replicas share.
func (m *matrix) recover(name string) time.Duration {
	ended := time.Now()
	testkit.Eventually(m.t, name+": recovery", func() bool {
		header, err := m.banners()
		status := header.Get("Cache-Status")
		return err == nil && strings.HasPrefix(status, "vitrine; hit; ttl=") && !strings.Contains(status, "ttl=-") && !strings.Contains(status, "redis-")
	})
	return time.Since(ended)
}

func (m *matrix) judge(c *cell, took, held time.Duration) {
	m.t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	c.worst = m.worst
	for d := range m.details {
		c.details = append(c.details, d)
	}
	slices.Sort(c.details)
	if len(m.wrong) > 0 {
		m.t.Errorf("%s: %d of %d answers are wrong: %q", c.name, len(m.wrong), c.answers, m.wrong[:min(3, len(m.wrong))])
	}
	if most := int(took/faultTTL) + 3 + c.purges; c.fetches > most {
		m.t.Errorf("%s: %d fetches in %v, want at most %d", c.name, c.fetches, took, most)
	}
	if c.warnings > 25 {
		m.t.Errorf("%s: %d warnings", c.name, c.warnings)
	}
	if limit := 3*time.Second + held; c.worst > limit {
		m.t.Errorf("%s: an answer took %v", c.name, c.worst)
	}
}

// soakEach is how long faults are tried at random for each volume beyond the first.
const soakEach = 30 * time.Second

// Whatever goes wrong around vitrine, visitors get the last good copy, nobody gets anything older
// than a purge, and afterwards all is as before: docs/failures.md.
func TestNoFaultCostsAVisitorAnAnswer(t *testing.T) {
	m := &matrix{trial: newTrial(t)}
	m.load()()
	m.goroutines, m.memory = m.metric("go_goroutines"), m.metric("process_resident_memory_bytes")
	groups := [][]fault{m.faultsOfTheCMS(), m.faultsOfRedis(), m.faultsOfTheProcess(), m.faultsOfTheTarget()}
	random := rand.New(rand.NewPCG(*faultsSeed, 0))
	purging := len(groups) - 1 // these begin with a purge, so nothing that hinders a fetch comes before them
	var singles, pairs [][]fault
	for i, group := range groups {
		for _, a := range group {
			singles = append(singles, []fault{a})
			for j := i + 1; j < len(groups); j++ {
				for _, b := range groups[j] {
					pairs = append(pairs, []fault{b, a})
					if j < purging {
						pairs = append(pairs, []fault{a, b})
					}
				}
			}
		}
	}
	for _, group := range groups[:2] {
		for _, a := range group {
			for _, b := range group {
				if a.name != b.name {
					pairs = append(pairs, m.instead(a, b))
				}
			}
		}
	}
	random.Shuffle(len(pairs), func(i, j int) { pairs[i], pairs[j] = pairs[j], pairs[i] })
	volume := harness.Volume(t)
	pairs = pairs[:min(6*volume, len(pairs))]
	soakTime := time.Duration(volume-1) * soakEach
	wanted := regexp.MustCompile(*faultsOnly)
	all := slices.DeleteFunc(append(singles, pairs...), func(some []fault) bool { return !wanted.MatchString(nameOf(some)) })
	for _, some := range all {
		m.try(300*time.Millisecond, some...)
	}
	told := len(m.cells)
	began, answers, fetches := time.Now(), m.answers.Load(), m.CMS.Count(shape.Banners)
	for time.Since(began) < soakTime && !t.Failed() {
		some := slices.Clone(all[random.IntN(len(all))])
		if *faultsOnly == "" {
			some = nil
			for _, i := range random.Perm(len(groups))[:1+random.IntN(3)] {
				f := groups[i][random.IntN(len(groups[i]))]
				if i == purging {
					some = slices.Insert(some, 0, f)
				} else {
					some = append(some, f)
				}
			}
		}
		m.try(time.Duration(random.IntN(1000))*time.Millisecond, some...)
	}
	t.Logf("%d answers, none failed, wrong or too old; %d cells, and %d at random in %v, seed %d: %d answers, %d fetches in %d TTLs",
		m.answers.Load(), told, len(m.cells)-told, time.Since(began).Round(time.Second), *faultsSeed,
		m.answers.Load()-answers, m.CMS.Count(shape.Banners)-fetches, time.Since(began)/faultTTL)
}

func TestMain(m *testing.M) { harness.Main(m) }

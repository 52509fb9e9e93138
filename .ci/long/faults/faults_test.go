// Package faults tries what can go wrong around vitrine, alone and in pairs: docs/failures.md.
package faults

import (
	goflag "flag"
	"maps"
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

// A matrix is a trial, and what its process had before the faults.
type matrix struct {
	*trial
	goroutines, memory float64
}

func nameOf(faults []fault) string {
	names := make([]string, len(faults))
	for i, f := range faults {
		names[i] = f.name
	}
	return strings.Join(names, ", then ")
}

// try begins faults one after the other, each while those before it last, and asserts what must hold
// during them and afterwards.
func (m *matrix) try(hold time.Duration, faults ...fault) {
	m.t.Helper()
	name := nameOf(faults)
	m.mu.Lock()
	m.worst, m.wrong, m.details = 0, nil, map[string]bool{}
	m.mu.Unlock()
	began, answers, fetches, version, failed := time.Now(), m.answers.Load(), m.CMS.Count(shape.Banners), m.Version.Load(), m.t.Failed()
	log := m.log.String()
	metrics, _ := m.operatorSays("/metrics")
	stop := m.load()
	for _, f := range faults {
		until := time.Now().Add(hold)
		f.begin()
		if len(faults) == 1 && f.says != (says{}) { // at once: loading is soon over
			var missing []string
			for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); <-time.After(10 * time.Millisecond) {
				if missing = m.unsaid(f.says, log, metrics); len(missing) == 0 {
					break
				}
			}
			if len(missing) > 0 {
				m.t.Errorf("%s: nothing of %q", name, missing)
			}
		}
		<-time.After(time.Until(until))
	}
	for _, f := range slices.Backward(faults) {
		f.end()
	}
	ended := time.Now()
	testkit.Eventually(m.t, name+": a fresh answer that all replicas share", func() bool {
		header, err := m.banners()
		status := header.Get("Cache-Status")
		return err == nil && strings.HasPrefix(status, "vitrine; hit; ttl=") && !strings.Contains(status, "ttl=-") && !strings.Contains(status, "redis-")
	})
	recovery := time.Since(ended).Round(time.Millisecond)
	m.Purge(m.t, m.redis) // counts at once, as before
	<-time.After(harness.PurgeBound + 50*time.Millisecond)
	m.isNotified(name)
	stop()
	answers, fetches, purges := m.answers.Load()-answers, m.CMS.Count(shape.Banners)-fetches, int(m.Version.Load()-version)
	if most := int(time.Since(began)/faultTTL) + 3 + purges; fetches > most {
		m.t.Errorf("%s: %d fetches, want at most %d", name, fetches, most)
	}
	said := strings.TrimPrefix(m.log.String(), log)
	warnings := strings.Count(said, `"level":"WARN"`) + strings.Count(said, `"level":"ERROR"`)
	if warnings > 25 {
		m.t.Errorf("%s: %d warnings", name, warnings)
	}
	testkit.Eventually(m.t, name+": goroutines and memory as before", func() bool {
		return m.metric("go_goroutines") <= m.goroutines+goroutineRoom && m.metric("process_resident_memory_bytes") <= m.memory+memoryRoom
	})
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.wrong) > 0 {
		m.t.Errorf("%s: %d of %d answers are wrong: %q", name, len(m.wrong), answers, m.wrong[:min(3, len(m.wrong))])
	}
	if limit := 3*time.Second + hold*time.Duration(len(faults)); m.worst > limit {
		m.t.Errorf("%s: an answer took %v", name, m.worst)
	}
	m.t.Logf("%s: %d answers, the slowest in %v, %d fetches, %d warnings, recovered in %v, %v",
		name, answers, m.worst.Round(time.Millisecond), fetches, warnings, recovery, slices.Sorted(maps.Keys(m.details)))
	if m.t.Failed() && !failed {
		m.t.Logf("the log of that time:\n%s", said)
	}
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

// atRandom is a fault of each of two or three groups, or two of one group, the second instead of the first.
// The endpoint's begin with a purge: nothing that hinders a fetch comes before them.
func (m *matrix) atRandom(random *rand.Rand, groups [][]fault) (some []fault) {
	if random.IntN(4) == 0 {
		group := groups[random.IntN(2)]
		two := random.Perm(len(group))
		return m.instead(group[two[0]], group[two[1]])
	}
	for _, i := range random.Perm(len(groups))[:2+random.IntN(2)] {
		f := groups[i][random.IntN(len(groups[i]))]
		if i == len(groups)-1 {
			some = slices.Insert(some, 0, f)
		} else {
			some = append(some, f)
		}
	}
	return some
}

// Whatever goes wrong around vitrine, visitors get the last good copy, no answer is older than a purge,
// and afterwards all is as before: docs/failures.md. Each fault is tried alone; each of the CMS's also
// before and after a Redis that lies, with planted keys and an endpoint that lies; others at random.
func TestNoFaultCostsAVisitorAnAnswer(t *testing.T) {
	m := &matrix{trial: newTrial(t)}
	m.load()()
	m.goroutines, m.memory = m.metric("go_goroutines"), m.metric("process_resident_memory_bytes")
	groups := [][]fault{m.faultsOfTheCMS(), m.faultsOfRedis(), m.faultsOfTheProcess(), m.faultsOfTheEndpoint()}
	named := map[string]fault{}
	var all [][]fault
	for _, group := range groups {
		for _, f := range group {
			all, named[f.name] = append(all, []fault{f}), f
		}
	}
	for _, f := range groups[0] {
		all = append(all, []fault{named[lyingRedis], f}, []fault{named[lyingEndpoint], named[plantedKeys], f, named[lyingRedis]})
	}
	random := rand.New(rand.NewPCG(*faultsSeed, 0))
	for range 6 * harness.Volume(t) {
		all = append(all, m.atRandom(random, groups))
	}
	wanted := regexp.MustCompile(*faultsOnly)
	all = slices.DeleteFunc(all, func(some []fault) bool { return !wanted.MatchString(nameOf(some)) })
	for _, some := range all {
		m.try(300*time.Millisecond, some...)
	}
	t.Logf("%d answers to %d trials, none failed, wrong or too old; seed %d", m.answers.Load(), len(all), *faultsSeed)
}

func TestMain(m *testing.M) { harness.Main(m) }

package main

import (
	"net/http"
	"testing"
	"time"

	"vitrine/cmd/testkit"
)

// otherLayout is a version of vitrine with another layout of the hash in Redis.
var otherLayout = change{"../../cache/lease/lease.go", `const Layout = "1"`, `const Layout = "2"`}

// Replicas are upgraded to another layout of the hash and back, under load and with purges of both
// kinds, and for a while both run at once: no request fails, none is answered with anything older
// than a hard purge, and each layout is fetched as if it were alone.
func TestTwoLayoutsUnderOnePrefix(t *testing.T) {
	other := build(t, otherLayout)
	r := startReplicas(t)
	address := balancers["nginx"](r)
	replace := func(program string, some ...int) {
		t.Helper()
		for _, i := range some {
			r.purge(t, r.redis)
			r.purges++
			r.children[i].stop()
			r.children[i].program = program
			r.children[i].start(t)
			r.waitReady(i)
		}
	}
	r.underLoad(address, 2, func() {
		replace(other, 0, 1)
		for n := range 10 {
			if n%2 == 0 {
				r.purge(t, r.redis)
			} else {
				r.purgeSoftly(t, rollingTTL/2)
			}
			r.purges++
			<-time.After(rollingTTL / 4)
		}
	})
	r.underLoad(address, 2, func() {
		replace(other, 2, 3)
		replace("", 3, 1)
	})
	// Redis comes back empty while the CMS fails: each layout goes on with its own last good copies.
	r.purgeSoftly(t, rollingTTL/2)
	asked, stop := visitors(t, address, r.judge)
	r.redis.Kill()
	<-time.After(2 * purgeBound) // nobody trusts that Redis any more; who had heard of a change loads for himself
	for _, address := range r.public {
		if err := isWellAt("http://" + address + "/gvapp/singlebanner"); err != nil {
			t.Error(err)
		}
	}
	r.cms.Fail(http.StatusServiceUnavailable)
	<-time.After(rollingTTL)
	r.redis.Restart()
	<-time.After(2 * rollingTTL)
	r.cms.Recover()
	r.purgeSoftly(t, testkit.Patience) // the pause after a failure is the longer
	stop()
	t.Logf("%d requests were answered without Redis's data and the CMS", asked.Load())
}

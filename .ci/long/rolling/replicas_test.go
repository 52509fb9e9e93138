// Package rolling reloads, upgrades and restarts vitrine under load.
package rolling

import (
	"fmt"
	"net"
	"os"
	"testing"
	"time"

	"vitrine/cache/redistest"
	"vitrine/ci/long/harness"
	"vitrine/cmd/testkit"
	"vitrine/upstream/shape"
)

const rollingTTL = 2 * time.Second

// replicas are four processes that share a Redis, behind a balancer.
type replicas struct {
	*harness.Content
	t                *testing.T
	redis            *redistest.Server
	children         [4]harness.Child
	public, operator [4]string
	log              testkit.Buffer
	purges           int
}

func startReplicas(t *testing.T) *replicas {
	r := &replicas{t: t, Content: harness.NewContent(t), redis: redistest.Start(t)}
	for i := range r.children {
		r.public[i], r.operator[i] = harness.FreeAddress(t), harness.FreeAddress(t)
		r.children[i] = harness.Child{Log: &r.log, Environ: []string{
			"VITRINE_LISTEN=" + r.public[i], "VITRINE_ADMIN_LISTEN=" + r.operator[i], "VITRINE_SHUTDOWN_DELAY=2s", "VITRINE_LOG_FORMAT=json",
			"VITRINE_UPSTREAM_URL=" + r.CMS.URL, "VITRINE_REDIS_URL=" + r.redis.URL(), "VITRINE_TTL=" + rollingTTL.String(),
		}}
		r.children[i].Start(t)
		t.Cleanup(r.children[i].Stop)
	}
	for i := range r.children {
		harness.WaitUntilWell(t, "http://"+r.operator[i]+"/readyz")
	}
	return r
}

// roll restarts one after the other, and purges meanwhile.
func (r *replicas) roll() {
	r.t.Helper()
	for i := range r.children {
		r.Purge(r.t, r.redis)
		r.purges++
		r.children[i].Stop()
		r.children[i].Start(r.t)
		harness.WaitUntilWell(r.t, "http://"+r.operator[i]+"/readyz")
	}
}

// servers are the addresses of the replicas in place of those of the pages.
func (r *replicas) servers() (swap []string) {
	for i := range r.children {
		swap = append(swap, fmt.Sprintf("10.0.0.%d:8080", i+1), r.public[i])
	}
	return swap
}

// balance runs a balancer at address until the test ends.
func (r *replicas) balance(address string, program string, args ...string) {
	r.t.Helper()
	harness.Run(r.t, address, program, args...)
	harness.WaitUntilWell(r.t, "http://"+address+"/gvapp/singlebanner")
}

// balancers start what users have in front of several replicas.
var balancers = map[string]func(r *replicas) (address string){
	"haproxy": func(r *replicas) string {
		harness.Need(r.t, "haproxy", "haproxy")
		address := harness.FreeAddress(r.t)
		swap := []string{"bind :80", "bind " + address}
		for i := range r.children {
			_, port, _ := net.SplitHostPort(r.operator[i])
			swap = append(swap, fmt.Sprintf("10.0.0.%d:8080 port 9090", i+1), fmt.Sprintf("10.0.0.%d:8080 port %s", i+1, port))
		}
		r.balance(address, "haproxy", "-db", "-f", harness.File(r.t, "haproxy.cfg", harness.ProxyConfiguration(r.t, "haproxy.cfg", append(swap, r.servers()...)...)))
		return address
	},
	"nginx": func(r *replicas) string {
		harness.Need(r.t, "nginx", "nginx-light")
		address, dir := harness.FreeAddress(r.t), r.t.TempDir()
		conf := fmt.Sprintf("daemon off; pid %[1]s/pid; error_log stderr crit; worker_processes 2; events {}\nhttp { access_log off; client_body_temp_path %[1]s/1; proxy_temp_path %[1]s/2; fastcgi_temp_path %[1]s/3; uwsgi_temp_path %[1]s/4; scgi_temp_path %[1]s/5; include %[2]s; }\n",
			dir, harness.File(r.t, "vitrine.conf", harness.ProxyConfiguration(r.t, "nginx-balancer.conf", append(r.servers(), "listen 80", "listen "+address)...)))
		if os.Geteuid() == 0 { // otherwise the workers switch to a user who cannot read the test's folder
			conf = "user root; " + conf
		}
		r.balance(address, "nginx", "-c", harness.File(r.t, "nginx.conf", conf), "-e", "stderr", "-p", dir)
		return address
	},
}

// underLoad lets visitors ask the address while f runs, and asserts that the CMS was asked once per
// TTL and purge.
func (r *replicas) underLoad(address string, f func()) {
	r.t.Helper()
	r.purges = 0
	began, fetches := time.Now(), map[shape.Resource]int{}
	for _, resource := range shape.Resources() {
		fetches[resource] = r.CMS.Count(resource)
	}
	asked, stop := visitors(r.t, address, r.Judge)
	f()
	stop()
	took := time.Since(began)
	most := int(took/rollingTTL) + 1 + r.purges
	for _, resource := range shape.Resources() {
		if n := r.CMS.Count(resource) - fetches[resource]; n > most {
			r.t.Errorf("%s: fetched %d times in %v with %d purges, want at most %d", resource, n, took, r.purges, most)
		}
	}
	r.t.Logf("%d requests were answered in %v; %d purges; %d fetches, %d allowed", asked.Load(), took, r.purges, r.CMS.Count(shape.Banners)-fetches[shape.Banners], most)
	loggedNoFailure(r.t, &r.log)
}

// Each of four replicas behind a balancer is restarted under load: no request fails, none is
// answered with anything older than a purge, and nothing is fetched for it.
func TestRollingRestartsBehindABalancerFailNoRequest(t *testing.T) {
	for name, start := range balancers {
		t.Run(name, func(t *testing.T) {
			r := startReplicas(t)
			address := start(r)
			r.underLoad(address, func() {
				for range harness.Volume(t) {
					r.roll()
				}
			})
		})
	}
}

func TestMain(m *testing.M) { harness.Main(m) }

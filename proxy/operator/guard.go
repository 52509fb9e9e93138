package operator

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"vitrine/proxy/operator/webhook"
)

// open are the paths that need no token: a kubelet or a balancer has none, and the health checks
// show nothing of the content. The webhook has a secret of its own, so that a CMS need not know the
// token.
var open = map[string]bool{"/livez": true, "/readyz": true, webhook.Path: true}

// protect requires the token, unless it is empty, for everything but the open paths.
func protect(token string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		given, ok := webhook.Bearer(r)
		if !ok {
			_, given, ok = r.BasicAuth()
		}
		if token == "" || open[r.URL.Path] || webhook.Same(given, token) && ok {
			next.ServeHTTP(w, r)
			return
		}
		// Two challenges: a browser takes the one that it can ask its user for, tools take the
		// other.
		w.Header().Add("WWW-Authenticate", `Bearer realm="vitrine"`)
		w.Header().Add("WWW-Authenticate", `Basic realm="vitrine", charset="UTF-8"`)
		webhook.Detail(w, http.StatusUnauthorized, "Authentication credentials were not provided or are wrong.")
	})
}

// guardHosts refuses requests for other hosts: a page that an operator looks at elsewhere could
// otherwise rebind its own name to this address, and read everything here as its own. A request
// without a host does not come from a browser.
func guardHosts(o Options, next http.Handler) http.Handler {
	hosts := map[string]bool{"": true, "localhost": true}
	for _, host := range append([]string{o.Listen}, o.Hosts...) {
		hosts[hostname(host)] = true
	}
	often := rate.Sometimes{Interval: time.Minute}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := hostname(r.Host)
		ip, err := netip.ParseAddr(host)
		if !hosts[host] && (err != nil || !ip.IsLoopback() && !isLocal(r, ip)) {
			often.Do(func() { //nolint:contextcheck // it has the context of the request
				o.Logger.WarnContext(r.Context(), "request for a host that is not served at the admin address: list it in VITRINE_ADMIN_HOSTS (admin.hosts)",
					"host", host, "path", r.URL.Path, "from", r.RemoteAddr)
			})
			webhook.Detail(w, http.StatusMisdirectedRequest, "This Host is not served here. VITRINE_ADMIN_HOSTS (admin.hosts in the file) lists further ones.")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// hostname is the host in HOST or HOST:PORT, as it is compared.
func hostname(text string) string {
	if host, _, err := net.SplitHostPort(text); err == nil {
		text = host
	}
	return strings.ToLower(strings.TrimSuffix(strings.Trim(text, "[]"), "."))
}

// isLocal reports whether the request's connection was made to ip.
func isLocal(r *http.Request, ip netip.Addr) bool {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return ok && local.AddrPort().Addr().Unmap() == ip.Unmap()
}

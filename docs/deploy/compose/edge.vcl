# Varnish in front of the stack: edge.yml. docs/deploy/proxies/varnish.vcl has
# more: fewer codings, and the copy while vitrine is down.
vcl 4.1;

backend vitrine {
    .host = "vitrine";
    .port = "8080";
}

sub vcl_recv {
    # vitrine notifies at an address that is not published.
    if (req.method == "BAN") {
        if (local.socket != "tellers") {
            return (synth(403));
        }
        if (req.http.Cache-Groups !~ {"^"[a-z]+"$"}) {
            return (synth(400));
        }
        ban("obj.http.Cache-Groups ~ " + req.http.Cache-Groups);
        return (synth(200));
    }
    unset req.http.Cookie;
    unset req.http.Authorization;
}

sub vcl_backend_response {
    # An error replaces no copy.
    if (beresp.status >= 500) {
        set beresp.uncacheable = true;
        set beresp.ttl = 0s;
    }
}
